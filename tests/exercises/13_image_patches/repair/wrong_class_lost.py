# finding: class token lost
# Who takes the class token off and does not put it back.
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=tuple(new_grid), mode="bicubic")
    return places.flatten(2).mT
