"""Position vectors on a grid of patches, and how they move to another grid.

Each kind is a module: called, it gives (1, 1 + N, d_model), the class token's row first, then the patches row by row;
`.resized(grid)` gives the same kind for another grid. What is not learned is computed in the call, never kept: a model
that was built on the meta device has it as soon as its weights are loaded.

Sources: Dosovitskiy et al. 2021 (ViT), §3.2 and appendix D.4; Vaswani et al. 2017, §3.5 (sines and cosines).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mhalib.arguments import check_tensors, pair, whole_numbers

Grid = tuple[int, int]


def interpolate_positions(table: Tensor, grid: Grid, new_grid: Grid, *, num_prefix: int = 1) -> Tensor:
    """Learned position vectors for another grid of patches, by bicubic interpolation to exactly `new_grid`.

    Given a size rather than a factor, the result has as many rows as the new grid has places, whatever the rounding of
    their quotient. The grid's outer edges stay together (torch's `align_corners=False`), as in the code of
    `transformers`; there is no smoothing before a grid is made smaller.

    Args:
        table: (1, num_prefix + N, d_model), patches row by row.
        grid: (down, across) of its N patches.
        new_grid: (down, across) of the patches wanted.
        num_prefix: rows in front that stand for no place, such as the class token's; they are kept as they are.

    Returns:
        (1, num_prefix + N', d_model) of the same dtype; a copy of `table` where the grids are equal.

    Source: Dosovitskiy et al. 2021, §3.2.
    """
    check_tensors(table=table)
    grid, new_grid = pair("grid", grid), pair("new_grid", new_grid)
    (num_prefix,) = whole_numbers(0, num_prefix=num_prefix)
    rows = num_prefix + grid[0] * grid[1]
    if table.dim() != 3 or table.shape[:2] != (1, rows):
        raise ValueError(
            f"table: got shape {tuple(table.shape)}; accepted is (1, {rows}, d_model): {num_prefix} in front and "
            f"{grid[0]} × {grid[1]} patches"
        )
    if not table.is_floating_point():
        raise TypeError(f"table: got {table.dtype}; accepted is a floating dtype")
    if grid == new_grid:
        return table.clone()
    places = table[:, num_prefix:].unflatten(1, grid).permute(0, 3, 1, 2)  # (1, d_model, down, across)
    exact = places.to(torch.promote_types(table.dtype, torch.float32))
    moved = F.interpolate(exact, size=new_grid, mode="bicubic", align_corners=False)
    return torch.cat([table[:, :num_prefix], moved.to(table.dtype).flatten(2).mT], dim=1)


class Positions(nn.Module):
    """What all kinds share: `forward(like)` is (1, 1 + N, d_model).

    Learned ones come as they are kept. Fixed ones are made anew, of the dtype and on the device of `like`: a buffer
    to remember them would be lost where a model is made on the meta device and given its weights by assignment.
    """

    def __init__(self, grid: Grid, d_model: int):
        super().__init__()
        self.grid = pair("grid", grid)
        (self.d_model,) = whole_numbers(d_model=d_model)

    def forward(self, like: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def resized(self, grid: Grid) -> Positions:
        """The same kind for another grid."""
        raise NotImplementedError


class LearnedPositions(Positions):
    """A learned vector for each place and one for the class token: (1 + down · across) · d_model parameters."""

    def __init__(self, grid: Grid, d_model: int):
        super().__init__(grid, d_model)
        self.table = nn.Parameter(0.02 * torch.randn(1, 1 + self.grid[0] * self.grid[1], self.d_model))

    def forward(self, like: Tensor | None = None) -> Tensor:
        return self.table

    def resized(self, grid: Grid) -> LearnedPositions:
        moved = LearnedPositions(grid, self.d_model)
        moved.table = nn.Parameter(
            interpolate_positions(self.table.detach(), self.grid, grid), requires_grad=self.table.requires_grad
        )
        return moved


class FactorisedPositions(Positions):
    """A learned vector for each row plus one for each column: (1 + down + across) · d_model parameters."""

    def __init__(self, grid: Grid, d_model: int):
        super().__init__(grid, d_model)
        self.class_position = nn.Parameter(0.02 * torch.randn(1, 1, self.d_model))
        self.rows = nn.Parameter(0.02 * torch.randn(1, self.grid[0], self.d_model))
        self.columns = nn.Parameter(0.02 * torch.randn(1, self.grid[1], self.d_model))

    def forward(self, like: Tensor | None = None) -> Tensor:
        places = self.rows[:, :, None] + self.columns[:, None, :]  # (1, down, across, d_model)
        return torch.cat([self.class_position, places.flatten(1, 2)], dim=1)

    def resized(self, grid: Grid) -> FactorisedPositions:
        """Each of the two tables by itself: the weights of a cubic sum to one, so that the sum moves alike."""
        moved = FactorisedPositions(grid, self.d_model)
        parts = {
            "class_position": self.class_position.detach().clone(),
            "rows": interpolate_positions(self.rows.detach(), (self.grid[0], 1), (grid[0], 1), num_prefix=0),
            "columns": interpolate_positions(self.columns.detach(), (1, self.grid[1]), (1, grid[1]), num_prefix=0),
        }
        for name, value in parts.items():
            setattr(moved, name, nn.Parameter(value, requires_grad=getattr(self, name).requires_grad))
        return moved


class SinusoidalPositions(Positions):
    """Sines and cosines of the row in the first half of the channels, of the column in the second; nothing learned.

    The class token's row is 0. On another grid the formula is taken at the places between which interpolation would
    look, so that a point of the picture keeps its vector.

    Args:
        grid: (down, across).
        d_model: a multiple of 4.
        first_grid: the grid on which neighbours are one step apart; None: `grid`.
    """

    def __init__(self, grid: Grid, d_model: int, first_grid: Grid | None = None):
        super().__init__(grid, d_model)
        if d_model % 4:
            raise ValueError(
                f"d_model: got {d_model}; accepted is a multiple of 4 for sinusoidal positions: a sine and a cosine, "
                "for the row and for the column"
            )
        self.first_grid = self.grid if first_grid is None else pair("first_grid", first_grid)

    def forward(self, like: Tensor | None = None) -> Tensor:
        grid, like = self.grid, torch.empty(0) if like is None else like
        sizes = zip(grid, self.first_grid, strict=True)
        down, across = (_sines(new, old, self.d_model // 2, like.device) for new, old in sizes)
        rows = down[:, None].expand(*grid, -1)
        columns = across[None].expand(*grid, -1)
        places = torch.cat([rows, columns], dim=-1).flatten(0, 1)
        return F.pad(places, (0, 0, 1, 0))[None].to(like.dtype)  # the class token's row in front

    def resized(self, grid: Grid) -> SinusoidalPositions:
        return SinusoidalPositions(grid, self.d_model, self.first_grid)


class NoPositions(Positions):
    """Zeros: every place looks the same."""

    def forward(self, like: Tensor | None = None) -> Tensor:
        return (torch.empty(0) if like is None else like).new_zeros(1, 1 + self.grid[0] * self.grid[1], self.d_model)

    def resized(self, grid: Grid) -> NoPositions:
        return NoPositions(grid, self.d_model)


#: Name → the class that makes them.
POSITIONS: dict[str | None, type[Positions]] = {
    "learned": LearnedPositions,
    "sinusoidal": SinusoidalPositions,
    "factorised": FactorisedPositions,
    None: NoPositions,
}


def _sines(length: int, first_length: int, channels: int, device: torch.device) -> Tensor:
    """(length, channels): sine and cosine in turn, at `length` places spread over `first_length` steps; float64."""
    exact = {"dtype": torch.float32 if device.type == "mps" else torch.float64, "device": device}  # mps has no float64
    place = (torch.arange(length, **exact) + 0.5) * first_length / length - 0.5
    angle = place[:, None] * 10000.0 ** (-torch.arange(0, channels, 2, **exact) / channels)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)
