"""Exercise 13.repair: a program that carries positions to another grid, to be repaired."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mhalib import vision
from mhalib.checks import Case, Exercise, Finding, Property


def repaired(table: Tensor, grid: tuple[int, int], new_grid: tuple[int, int]) -> Tensor:
    """Positions (1, 1 + N, d) for another grid; the class token's row as it is."""
    return vision.interpolate_positions(table, tuple(grid), tuple(new_grid))


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, grid: tuple[int, int], new_grid: tuple[int, int], d: int) -> Case:
        table = torch.randn(1, 1 + grid[0] * grid[1], d, generator=generator, dtype=torch.float64)
        return Case(name, {"table": table, "grid": grid, "new_grid": new_grid})

    return [
        case("4 × 6 to 6 × 9", (4, 6), (6, 9), 3),
        case("3 × 5, the same grid", (3, 5), (3, 5), 4),
        case("3 × 3 to 5 × 3", (3, 3), (5, 3), 2),
        case("6 × 4 to 3 × 2, a smaller one", (6, 4), (3, 2), 3),
        case("37 × 2 to 39 × 3", (37, 2), (39, 3), 2),
    ]


def _moved(turned: bool = False, size=lambda grid, new_grid: {"size": tuple(new_grid)}, **how):
    """The program of the exercise, with one choice or more still wrong."""
    how = {"mode": "bicubic"} | how

    def mistaken(table: Tensor, grid: tuple[int, int], new_grid: tuple[int, int]) -> Tensor:
        places = table[:, 1:].unflatten(1, tuple(grid)[::-1] if turned else tuple(grid)).permute(0, 3, 1, 2)
        places = F.interpolate(places, **size(grid, new_grid), **how)
        return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)

    return mistaken


def _factor(grid: tuple[int, int], new_grid: tuple[int, int]) -> dict[str, tuple[float, ...]]:
    return {"scale_factor": tuple(new / old for new, old in zip(new_grid, grid, strict=True))}


def _in_a_line(table: Tensor, grid: tuple[int, int], new_grid: tuple[int, int]) -> Tensor:
    places = F.interpolate(table[:, 1:].mT, new_grid[0] * new_grid[1], mode="linear")
    return torch.cat([table[:, :1], places.mT], dim=1)


def _places(case: Case) -> int:
    return case.arguments["new_grid"][0] * case.arguments["new_grid"][1]


REPAIR = Exercise(
    id="13.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("each place has the vector of its point in the picture"),
        Property.each("one row for each place, and one", lambda c, got, want: got.value.shape[1] == 1 + _places(c)),
        Property.each(
            "the class token's row is untouched",
            lambda c, got, want: torch.equal(got.value[:, 0], c.arguments["table"][:, 0]),
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Two things in it are wrong: one reads the table as a picture, the "
            "other says how large the new picture is.",
            _moved(turned=True, size=_factor),
        ),
        Finding.like(
            "still turned over",
            "The size is exact now. The table was written row by row: which of its axes varies faster, and do you "
            "read it so?",
            _moved(turned=True),
        ),
        Finding.like(
            "still a factor",
            "The picture is read rightly now. How many rows come out for 37 that are to be 39? A quotient, multiplied "
            "back, can fall a hair short of a whole number.",
            _moved(size=_factor),
        ),
        Finding.like(
            "the new grid turned over",
            "The old grid is read rightly, and the new one has its rows and columns exchanged: the number of places "
            "is the same, so that nothing fails.",
            _moved(size=lambda grid, new_grid: {"size": tuple(new_grid)[::-1]}),
        ),
        Finding.like(
            "corners aligned",
            "You hold the centres of the corner patches in place. The patches of another grid are of another size: "
            "what stays in place is the edge of the picture.",
            _moved(align_corners=True),
        ),
        Finding.like(
            "straight lines",
            "All the axes are right. The broken program interpolates by cubics, and so should the repaired one.",
            _moved(mode="bilinear"),
        ),
        Finding.like(
            "in a line",
            "You stretch the places as if they stood in one row: the end of each row of the grid runs into the "
            "beginning of the next.",
            _in_a_line,
        ),
        Finding.like(
            "class token lost",
            "The places are right. Where is the vector of the class token?",
            lambda table, grid, new_grid: repaired(table, grid, new_grid)[:, 1:],
        ),
    ),
)
