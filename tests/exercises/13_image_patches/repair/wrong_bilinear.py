# finding: straight lines
# Who takes the mode that is in every example.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=tuple(new_grid), mode="bilinear")
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)
