"""Exercise 08.merge: attention over disjoint sets of keys, merged."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mhalib import tiled
from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.chapter_08._shared import guard, item_is_right


def merge(outputs: Tensor, lses: Tensor) -> tuple[Tensor, Tensor]:
    """Output (L, D) and lse (L,) over all keys, of parts (P, L, D) and (P, L) over disjoint sets of keys."""
    return tiled.merge(list(zip(outputs, lses, strict=True)))


def _merge_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def parts(count: int, length: int, around: float = 0.0) -> dict[str, Tensor]:
        outputs = torch.randn(count, length, 5, generator=generator, dtype=torch.float64)
        lses = around + 2 * torch.randn(count, length, generator=generator, dtype=torch.float64)
        return {"outputs": outputs, "lses": lses}

    def blind(given: dict[str, Tensor], where: tuple) -> dict[str, Tensor]:
        """The parts `where` = (parts, rows) have seen nothing: output 0, lse −inf."""
        given["lses"][where], given["outputs"][where] = -math.inf, 0.0
        return given

    three = parts(3, 6)
    order = torch.tensor([2, 0, 1])
    return [
        Case("3 parts", three),
        Case("the same in another order", {name: x[order] for name, x in three.items()}),
        Case("as many parts as queries", parts(4, 4)),
        Case("one part", parts(1, 3)),
        Case("an lse around 2000", parts(2, 3, around=2000)),
        Case("an lse around −2000", parts(2, 3, around=-2000)),
        Case("one part has seen nothing", blind(parts(3, 4), (1, slice(1, 3)))),
        Case("a query has seen nothing at all", blind(parts(2, 4), (slice(None), 2))),
    ]


def _shares(lses: Tensor) -> Tensor:
    return (lses - guard(lses.logsumexp(0))).exp()


def _merged(
    shares: Callable[[Tensor], Tensor] = _shares, lse: Callable[[Tensor], Tensor] = lambda lses: lses.logsumexp(0)
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    def mistaken(outputs: Tensor, lses: Tensor) -> tuple[Tensor, Tensor]:
        return (shares(lses)[..., None] * outputs).sum(0), lse(lses)

    return mistaken


MERGE = Exercise(
    id="08.merge",
    points=3,
    answer="merge",
    cases=_merge_cases,
    reference=merge,
    properties=(
        Property.each("the output", item_is_right(0)),
        Property.each("the lse", item_is_right(1)),
        Property(
            "the order of the parts does not matter",
            lambda e: torch.allclose(e.got("3 parts")[0], e.got("the same in another order")[0]),
        ),
        Property.equal("both, in shape and dtype"),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "averaged",
            "The mean gives each part the same say. A part counts for as much as its keys weigh, and its lse tells "
            "how much that is.",
            _merged(shares=lambda lses: torch.ones_like(lses) / len(lses)),
        ),
        Finding.like(
            "exponentials overflow",
            "Right for small numbers. e²⁰⁰⁰ is infinite and e⁻²⁰⁰⁰ is 0 in every format; what may be subtracted from "
            "all lse of a query without changing the shares?",
            _merged(lambda lses: lses.exp() / lses.exp().sum(0), lambda lses: lses.exp().sum(0).log()),
        ),
        Finding.like(
            "minus infinity from itself",
            "Right wherever somebody has seen a key. If nobody has, the merged lse is −∞, and you subtract it from −∞.",
            _merged(shares=lambda lses: (lses - lses.logsumexp(0)).exp()),
        ),
        Finding.like(
            "shares over the queries",
            "Sum your shares over the parts, for one query. They have to sum to 1 there, not over the queries.",
            _merged(shares=lambda lses: lses.softmax(-1)),
        ),
        Finding.like(
            "weighted by the lse",
            "An lse is a logarithm: a part of twice the weight has an lse that is larger by 0.69, not by a factor.",
            _merged(shares=lambda lses: lses / lses.sum(0)),
        ),
        Finding.like(
            "the lse added",
            "The output is right. Sums of exponentials add up, their logarithms do not.",
            _merged(lse=lambda lses: lses.sum(0)),
        ),
        Finding.like(
            "the largest lse",
            "The output is right. The merged lse is *above* the largest one: two parts of equal weight have more "
            "than one of them.",
            _merged(lse=lambda lses: lses.amax(0)),
        ),
    ),
)
