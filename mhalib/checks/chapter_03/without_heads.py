"""Exercise 03.without_heads: a layer with some of its heads switched off."""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.checks import Case, Evidence, Exercise, Finding, Property
from mhalib.checks.chapter_03._shared import drawer, join_heads, join_without_transpose


def without_heads(heads: Tensor, w_o: Tensor, b_o: Tensor, off: list[int]) -> Tensor:
    """Output (B, L, d_model) of a layer whose heads `off` are switched off; heads (B, H, L, D)."""
    keep = torch.ones(heads.shape[1], dtype=heads.dtype).index_fill(0, torch.tensor(off, dtype=torch.int64), 0)
    return torch.einsum("bhld,hdm,h->blm", heads, w_o.unflatten(0, (heads.shape[1], -1)), keep) + b_o


def _without_cases(seed: int) -> list[Case]:
    draw = drawer(seed)

    def case(name: str, off: list[int], *shape: int, d_model: int, gradients: tuple[str, ...] = ()) -> Case:
        """`shape` is that of the heads, (B, H, L, D)."""
        tensors = {"heads": draw(*shape), "w_o": draw(shape[1] * shape[3], d_model), "b_o": draw(d_model)}
        return Case(name, {**tensors, "off": off}, gradients)

    return [
        case("one of 3 heads off", [1], 2, 3, 5, 4, d_model=12, gradients=("heads", "w_o", "b_o")),
        case("two of 4 heads off", [3, 0], 1, 4, 4, 2, d_model=8),
        case("none off", [], 2, 2, 3, 4, d_model=8),
        case("all off", [0, 1, 2], 1, 3, 5, 2, d_model=6),
        case("4 heads of 5 for 7 channels", [2], 2, 4, 3, 5, d_model=7),
    ]


def _silenced(heads: Tensor, off: list[int]) -> Tensor:
    return heads * torch.tensor([float(h not in off) for h in range(heads.shape[1])]).to(heads)[:, None, None]


def _columns_silenced(heads, w_o, b_o, off):
    output, size = join_heads(heads) @ w_o + b_o, heads.shape[3]
    return output * torch.tensor([float(c // size not in off) for c in range(len(b_o))]).to(output)


def _every_nth_row(heads, w_o, b_o, off):
    count = heads.shape[1]
    keep = torch.tensor([float(row % count not in off) for row in range(len(w_o))]).to(heads)
    return (join_heads(heads) * keep) @ w_o + b_o


def _scaled_up(heads, w_o, b_o, off):
    count = heads.shape[1]
    return (join_heads(_silenced(heads, off)) @ w_o) * (count / max(count - len(off), 1)) + b_o


def _shared_bias(heads, w_o, b_o, off):
    return join_heads(_silenced(heads, off)) @ w_o + b_o * (1 - len(off) / heads.shape[1])


def _inverted(heads, w_o, b_o, off):
    return join_heads(heads - _silenced(heads, off)) @ w_o + b_o


def _written_into(evidence: Evidence) -> bool:
    return all(evidence.same(got, want) for _, got, want in evidence.rows()) and any(
        outcome.changed for outcome in evidence.outcomes
    )


WITHOUT_HEADS = Exercise(
    id="03.without_heads",
    points=3,
    answer="without_heads",
    cases=_without_cases,
    reference=without_heads,
    properties=(
        Property.equal("equals the sum of the remaining terms, and the bias"),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding(
            "written into the input",
            "The numbers are right, and the caller's heads are gone: a second call would start from what the first one "
            "left. Work on something of your own.",
            _written_into,
        ),
        Finding.like(
            "output channels",
            "You cleared channels of the *output*. After W_O a head has no channels of its own: on which side of W_O "
            "does it have some?",
            _columns_silenced,
        ),
        Finding.like(
            "every H-th row",
            "You cleared every H-th channel of the concatenation. Which channels of it does head 1 fill?",
            _every_nth_row,
        ),
        Finding.like(
            "scaled up",
            "You made up for the missing heads, as dropout does. The task is the plain sum without their terms: how "
            "large is it?",
            _scaled_up,
        ),
        Finding.like(
            "bias shared out",
            "You took away a part of the bias for each head. How often is b_o added in the formula, and by which head?",
            _shared_bias,
        ),
        Finding.like(
            "no bias",
            "With all heads off something is left. What?",
            lambda heads, w_o, b_o, off: join_heads(_silenced(heads, off)) @ w_o,
        ),
        Finding.like(
            "the others switched off",
            "With no head off your output is the bias alone. Which heads does `off` name?",
            _inverted,
        ),
        Finding.like(
            "join without the transpose",
            "With no head off the output has to be that of the whole layer, and yours is not. In which order do the "
            "axes of (B, H, L, D) have to stand when they are laid side by side?",
            lambda heads, w_o, b_o, off: join_without_transpose(_silenced(heads, off)) @ w_o + b_o,
        ),
    ),
)
