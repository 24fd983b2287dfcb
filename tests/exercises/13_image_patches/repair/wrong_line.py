# finding: in a line
# Who sees a sequence, because that is how the table is stored.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    places = F.interpolate(table[:, 1:].mT, size=new_grid[0] * new_grid[1], mode="linear")
    return torch.cat([table[:, :1], places.mT], dim=1)
