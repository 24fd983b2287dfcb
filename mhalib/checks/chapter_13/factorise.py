"""Exercise 13.factorise: the nearest table of positions of the form row + column."""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property


def factorise(places: Tensor) -> Tensor:
    """The table (H, W, d) of the form row + column that is nearest to `places` in squares."""
    return places.mean(1, keepdim=True) + places.mean(0, keepdim=True) - places.mean((0, 1), keepdim=True)


def _factorise_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64) + 1.0

    return [
        Case("4 rows, 6 columns", {"places": draw(4, 6, 3)}),
        Case("as many rows as columns", {"places": draw(3, 3, 2)}),
        Case("row + column already", {"places": draw(5, 1, 2) + draw(1, 4, 2)}),
        Case("a single row", {"places": draw(1, 5, 2)}),
        Case("one number a place", {"places": draw(2, 5, 1)}),
    ]


def _nothing_left(case: Case, got: Outcome, want: Outcome) -> bool:
    left = case.arguments["places"] - got.value
    return left.mean(0).abs().max() < 1e-9 and left.mean(1).abs().max() < 1e-9


def _crossed(case: Case, got: Outcome, want: Outcome) -> bool:
    x = got.value
    return torch.allclose(x + x[:1, :1], x[:, :1] + x[:1])


def _kept(evidence: Evidence) -> bool:
    case = next(c for c in evidence.cases if c.name == "row + column already")
    return torch.allclose(evidence.got(case.name), case.arguments["places"])


FACTORISE = Exercise(
    id="13.factorise",
    points=3,
    answer="factorise",
    cases=_factorise_cases,
    reference=factorise,
    properties=(
        Property.equal("is the nearest table"),
        Property.each("is a vector for the row plus one for the column", _crossed),
        Property.each("what is left over has mean 0 in every row and every column", _nothing_left),
        Property("a table that is row + column already stays as it is", _kept),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "the mean twice",
            "Give your function a table whose places are all equal: what should come out, and what does?",
            lambda places: places.mean(1, keepdim=True) + places.mean(0, keepdim=True),
        ),
        Finding.like(
            "half of each",
            "The size is right on the average, and the differences between rows are half as large as they should be.",
            lambda places: (places.mean(1, keepdim=True) + places.mean(0, keepdim=True)) / 2,
        ),
        Finding.like(
            "rows alone",
            "All the places of a row are equal in your table. Where did the columns go?",
            lambda places: places.mean(1, keepdim=True).expand_as(places),
        ),
        Finding.like(
            "columns alone",
            "All the places of a column are equal in your table. Where did the rows go?",
            lambda places: places.mean(0, keepdim=True).expand_as(places),
        ),
        Finding.like(
            "first row and first column",
            "Exact where the table is a sum already. Elsewhere you believe the first row and the first column, and "
            "ask no other place. What uses all of them?",
            lambda places: places[:, :1] + places[:1] - places[:1, :1],
        ),
        Finding.like(
            "one mean for all channels",
            "Right for one number a place. Each channel is a table of its own: over which axes do you take the mean "
            "of all?",
            lambda places: places.mean(1, keepdim=True) + places.mean(0, keepdim=True) - places.mean(),
        ),
        Finding.like(
            "a product",
            "Your table is a product of a row's number and a column's. A factorised position is a sum of two vectors, "
            "whatever its name suggests.",
            lambda places: places.mean(1, keepdim=True) * places.mean(0, keepdim=True) / places.mean((0, 1)),
        ),
    ),
)
