"""Exercise 05.outside: what a layer can see, from its outputs alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mhalib import masks
from mhalib.checks import Case, Exercise, Finding, Property

ROUNDING = 1e-5


def seen_from_outside(outputs: Tensor) -> Tensor:
    """bool (L, T): which outputs move with which token; outputs (1 + T, L, D), the first with no token changed."""
    return ((outputs[1:] - outputs[0]).abs().amax(dim=-1) > ROUNDING).T


def _outside_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def case(name: str, mask: Tensor, change: Callable[[Tensor], Tensor] = lambda x: x) -> Case:
        """Outputs of 4 numbers that move where the mask says so, and by a rounding elsewhere."""
        lq, lk = mask.shape
        moves = change(1 + randn(lk, lq, 4).abs()) * mask.T[..., None]
        base = randn(1, lq, 4)
        return Case(name, {"outputs": torch.cat([base, base + moves + 1e-8 * randn(lk, lq, 4)])})

    def one_channel(x: Tensor) -> Tensor:
        return x * torch.tensor([0.0, 0.0, 1.0, 0.0])

    def balanced(x: Tensor) -> Tensor:
        return x[..., :1] * torch.tensor([1.0, -1.0, 2.0, -2.0])

    scattered = torch.rand(6, 4, generator=generator) < 0.5
    scattered[0], scattered[1, 0] = torch.tensor([False, True, False, True]), True
    return [
        case("a causal mask", masks.causal(5)),
        case("one diagonal too many", torch.ones(5, 5, dtype=torch.bool).tril(1)),
        case("3 outputs, 7 tokens", masks.window(3, 7, 2)),
        case("any mask", scattered),
        case("changes in one number", masks.window(6, 6, 3), one_channel),
        case("changes that sum to 0", masks.causal(4, 6), balanced),
    ]


def _moved(outputs: Tensor) -> Tensor:
    return (outputs[1:] - outputs[0]).abs()


OUTSIDE = Exercise(
    id="05.outside",
    points=3,
    answer="seen",
    cases=_outside_cases,
    reference=seen_from_outside,
    properties=(Property.equal("finds the mask"), Property.pure()),
    findings=(
        Finding.like(
            "queries and keys exchanged",
            "A row has to be an output, a column the token that was changed. Along which of the two does your first "
            "axis run?",
            lambda outputs: _moved(outputs).amax(dim=-1) > ROUNDING,
        ),
        Finding.like(
            "every rounding counts",
            "You see changes of one part in 10⁸. The same numbers, added in another order, differ by as much: how "
            "large does a change have to be to count?",
            lambda outputs: (_moved(outputs) > 0).any(dim=-1).T,
        ),
        Finding.like(
            "changes cancelled",
            "You add up changes that have a sign. What if one number of an output rises and another one falls?",
            lambda outputs: ((outputs[1:] - outputs[0]).sum(dim=-1).abs() > ROUNDING).T,
        ),
        Finding.like(
            "every number has to move",
            "An output has moved if *one* of its numbers has.",
            lambda outputs: (_moved(outputs) > ROUNDING).all(dim=-1).T,
        ),
        Finding.like(
            "compared with the run before",
            "In run t − 1 another token is changed, and it is back in run t. Which run has all tokens as they were?",
            lambda outputs: ((outputs[1:] - outputs[:-1]).abs().amax(dim=-1) > ROUNDING).T,
        ),
        Finding.like(
            "True where nothing moved",
            "True = may attend: an output that moves with a token sees it.",
            lambda outputs: (_moved(outputs).amax(dim=-1) <= ROUNDING).T,
        ),
        Finding.any(
            "the future was not looked at",
            "You found what should be there, and not what is: one of these masks leaks, and yours does not show it.",
            lambda case, got, want: "too many" in case.name and torch.equal(got.value, want.value.tril()),
        ),
        Finding.any(
            "numbers for truth values",
            "A mask of this course is boolean.",
            lambda case, got, want: got.value.dtype != torch.bool and got.value.shape == want.value.shape,
        ),
    ),
)
