# finding: still turned over
# Who found the report about the scale factor and stopped reading.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, width, height, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=tuple(new_grid), mode="bicubic")
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)
