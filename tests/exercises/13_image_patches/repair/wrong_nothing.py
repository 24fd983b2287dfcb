# finding: nothing changed
# Who tried it on a square grid whose size doubles, and saw nothing wrong.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, width, height, -1).permute(0, 3, 1, 2)
    factor = (new_grid[0] / height, new_grid[1] / width)
    places = F.interpolate(places, scale_factor=factor, mode="bicubic")
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)
