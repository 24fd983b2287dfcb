"""Exercise 05.repair: a program of a causal window, to be repaired."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import mhalib
from mhalib.checks import Case, Evidence, Exercise, Finding, Property


def repaired(query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
    """The last Lq tokens over Lk keys, causal, each seeing `window` keys, its own included."""
    return mhalib.attention(query, key, value, causal=True, window=window, backend="reference")


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, lq: int, lk: int, window: int) -> Case:
        shapes = {"query": (2, 3, lq, 4), "key": (2, 3, lk, 4), "value": (2, 3, lk, 4)}
        drawn = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
        return Case(name, {**drawn, "window": window})

    prompt = case("a prompt", 7, 7, 3)
    return [
        prompt,
        Case("its last token alone", {**prompt.arguments, "query": prompt.arguments["query"][:, :, -1:].clone()}),
        case("3 tokens over 8 keys", 3, 8, 4),
        case("3 tokens over 8 keys, a window of 8", 3, 8, 8),
        case("a window of one key", 4, 6, 1),
        case("a window wider than the prompt", 5, 5, 9),
    ]


def _repaired_with(past: Callable[[int], int], near: Callable[[int, int], int]):
    """The program of the exercise with two diagonals: of the offset lk − lq, and of it and the window."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
        lq, lk = query.shape[-2], key.shape[-2]
        ones = torch.ones(lq, lk, dtype=torch.bool)
        allowed = ones.tril(past(lk - lq)) & ones.triu(near(lk - lq, window))
        return scaled_dot_product_attention(query, key, value, attn_mask=allowed)

    return mistaken


def _decodes(evidence: Evidence) -> bool:
    return torch.allclose(evidence.got("a prompt")[:, :, -1:], evidence.got("its last token alone"))


REPAIR = Exercise(
    id="05.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("equals attention under the right mask"),
        Property("a token alone gets the same answer as at the end of its prompt", _decodes),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Draw its mask twice: for 6 queries and 6 keys, and for 1 query "
            "and 6 keys.",
            _repaired_with(lambda off: 0, lambda off, w: -w),
        ),
        Finding.like(
            "the window is still one key too wide",
            "The corner is right now. Count the visible keys of the last row, and compare with the window.",
            _repaired_with(lambda off: off, lambda off, w: off - w),
        ),
        Finding.like(
            "the corner is still wrong",
            "The window has the right width now. With fewer queries than keys, where does the *last* query stand?",
            _repaired_with(lambda off: 0, lambda off, w: 1 - w),
        ),
        Finding.like(
            "only the future was moved",
            "One edge of the window has moved to the right corner, the other one has not: with a cache the window "
            "gets wider than it should be.",
            _repaired_with(lambda off: off, lambda off, w: 1 - w),
        ),
        Finding.like(
            "only the future was moved, and the width",
            "Two things are left, both at the far edge of the window: where it begins with a cache, and how many keys "
            "are inside without one.",
            _repaired_with(lambda off: off, lambda off, w: -w),
        ),
        Finding.like(
            "moved the wrong way",
            "Right for as many queries as keys. With a cache, do the queries stand at its beginning or at its end? "
            "Your diagonal moved to the other side.",
            _repaired_with(lambda off: -off, lambda off, w: 1 - w - off),
        ),
        Finding.like(
            "one key too few",
            "Now it is one key too narrow. With a window of one key a token has to see itself.",
            _repaired_with(lambda off: off, lambda off, w: off - w + 2),
        ),
    ),
)
