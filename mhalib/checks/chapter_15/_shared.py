"""What several exercises of chapter 15 use."""

from __future__ import annotations

import torch

from mhalib.checks import Case, Outcome


def map_case(generator: torch.Generator, name: str, *shape: int, r: int, gradients: tuple[str, ...] = ()) -> Case:
    """A map `x` (B, C, H, W) and the two matrices of its channel gates, reduced by `r`."""
    c = shape[1]
    shapes = {"x": shape, "w1": (c // r, c), "w2": (c, c // r)}
    drawn = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
    return Case(name, drawn, gradients)


def map_cases(seed: int) -> list[Case]:
    """Maps of several shapes, on which channel gates are tried."""
    generator = torch.Generator().manual_seed(seed)
    plain = map_case(generator, "2 maps of 6 channels", 2, 6, 3, 5, r=2, gradients=("x", "w1", "w2"))
    one = {**plain.arguments, "x": plain.arguments["x"][1:].clone()}
    return [
        plain,
        Case("the second of them alone", one),
        map_case(generator, "as many channels as rows and columns", 3, 4, 4, 4, r=2),
        map_case(generator, "no reduction", 2, 3, 4, 2, r=1),
        map_case(generator, "1 × 1, after pooling", 2, 8, 1, 1, r=4),
    ]


def shrinks(case: Case, got: Outcome, want: Outcome) -> bool:
    """Whether no number of the map grew or changed its sign."""
    x, y = case.arguments["x"], got.value
    return (y.abs() <= x.abs()).all() and (x * y >= 0).all()
