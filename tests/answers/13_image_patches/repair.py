# %% right: channels
# Every channel as a picture of its own.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    pictures = table[0, 1:].T.unflatten(1, tuple(grid))[:, None]  # (d, 1, rows, columns)
    pictures = F.interpolate(pictures, size=list(new_grid), mode="bicubic")
    return torch.cat([table[0, :1], pictures.flatten(1).T])[None]


# %% right: size
# The axes in the order in which they were written, and a size.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=(new_grid[0], new_grid[1]), mode="bicubic", align_corners=False)
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)


# %% wrong: nothing
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


# %% wrong: still turned
# finding: still turned over
# Who found the report about the scale factor and stopped reading.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, width, height, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=tuple(new_grid), mode="bicubic")
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)


# %% wrong: still factor
# finding: still a factor
# Who puts the axes right, and trusts that 37 times 39/37 is 39.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    factor = (new_grid[0] / height, new_grid[1] / width)
    places = F.interpolate(places, scale_factor=factor, mode="bicubic")
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)


# %% wrong: new turned
# finding: the new grid turned over
# Who gives sizes as width by height.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=(new_grid[1], new_grid[0]), mode="bicubic")
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)


# %% wrong: corners
# finding: corners aligned
# Who wants the corner patches to stay where they are.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=tuple(new_grid), mode="bicubic", align_corners=True)
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)


# %% wrong: bilinear
# finding: straight lines
# Who takes the mode that is in every example.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=tuple(new_grid), mode="bilinear")
    return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)


# %% wrong: line
# finding: in a line
# Who sees a sequence, because that is how the table is stored.
import torch
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    places = F.interpolate(table[:, 1:].mT, size=new_grid[0] * new_grid[1], mode="linear")
    return torch.cat([table[:, :1], places.mT], dim=1)


# %% wrong: class lost
# finding: class token lost
# Who takes the class token off and does not put it back.
import torch.nn.functional as F


def repaired(table, grid, new_grid):
    height, width = grid
    places = table[:, 1:].reshape(1, height, width, -1).permute(0, 3, 1, 2)
    places = F.interpolate(places, size=tuple(new_grid), mode="bicubic")
    return places.flatten(2).mT
