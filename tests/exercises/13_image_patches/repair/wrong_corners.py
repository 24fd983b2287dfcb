# finding: corners aligned
# Who wants the corner patches to stay where they are.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=tuple(new_grid), mode="bicubic", align_corners=True)
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)
