# finding: the new grid turned over
# Who gives sizes as width by height.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=(new_grid[1], new_grid[0]), mode="bicubic")
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)
