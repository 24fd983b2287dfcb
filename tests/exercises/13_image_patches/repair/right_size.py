# The axes in the order in which they were written, and a size.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=(new_grid[0], new_grid[1]), mode="bicubic", align_corners=False)
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)
