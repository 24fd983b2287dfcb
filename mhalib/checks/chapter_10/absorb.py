"""Exercise 10.absorb: attention on latents, with the matrices absorbed."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mhalib.checks import Case, Exercise, Finding, Outcome, Property
from mhalib.checks.chapter_10._shared import normal
from mhalib.checks.compare import difference


def absorbed(query: Tensor, latent: Tensor, k_up: Tensor, v_up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Absorbed queries and mixed latents, both (B, H, Lq, R), and the output (B, H, Lq, D)."""
    return _absorbed_with()(query, latent, k_up, v_up)


def _absorbed_with(
    scale: Callable = lambda d, r: 1 / math.sqrt(d),
    absorb: str = "bhqd,hdr->bhqr",
    last: Callable = lambda k_up, v_up: v_up,
    shown: Callable = lambda asked, scale: asked,
    pool: Callable = lambda scores: scores,
):
    """The absorbed form with one thing different."""

    def mistaken(query: Tensor, latent: Tensor, k_up: Tensor, v_up: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        by = scale(*k_up.shape[1:])
        asked = torch.einsum(absorb, query, k_up)
        weights = pool(asked @ latent[:, None].mT * by).softmax(dim=-1)
        mixed = weights @ latent[:, None]
        return shown(asked, by), mixed, torch.einsum("bhqr,hdr->bhqd", mixed, last(k_up, v_up))

    return mistaken


def _absorb_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, batch: int, heads: int, lq: int, lk: int, dims: int, rank: int) -> Case:
        shapes = {"query": (batch, heads, lq, dims), "latent": (batch, lk, rank)}
        shapes |= {"k_up": (heads, dims, rank), "v_up": (heads, dims, rank)}
        return Case(name, {n: normal(generator, *shape) for n, shape in shapes.items()})

    return [
        case("3 heads of 4, latents of 10", 2, 3, 5, 7, 4, 10),
        case("one query", 1, 4, 1, 6, 8, 5),
        case("heads as large as the latents", 2, 2, 3, 5, 6, 6),
        case("one head", 1, 1, 4, 9, 2, 7),
    ]


def _unpacked(case: Case, got: Outcome, want: Outcome) -> bool:
    """Something of the first two has D numbers where R are asked for."""
    sizes = {x.shape[-1] for x in got.value[:2]}
    dims, rank = case.arguments["k_up"].shape[1:]
    return dims != rank and dims in sizes and torch.allclose(got.value[2], want.value[2])


def _only_output(case: Case, got: Outcome, want: Outcome) -> bool:
    return isinstance(got.value, Tensor) and torch.allclose(got.value, want.value[2])


ABSORB = Exercise(
    id="10.absorb",
    points=3,
    answer="absorbed",
    cases=_absorb_cases,
    reference=absorbed,
    properties=(
        Property.each(
            "absorbed query · latent = query · key", lambda case, got, want: not difference(got.value[0], want.value[0])
        ),
        Property.each(
            "the mixed latents are the weighted sums",
            lambda case, got, want: not difference(got.value[1], want.value[1]),
        ),
        Property.each(
            "the output equals unpacking keys and values first",
            lambda case, got, want: len(got.value) == 3 and not difference(got.value[2], want.value[2]),
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "scaled by the rank",
            "The scores have not changed by absorbing: they are still those of queries and keys with D numbers. Whose "
            "size belongs under the root?",
            _absorbed_with(scale=lambda d, r: 1 / math.sqrt(r)),
        ),
        Finding.like(
            "no scale",
            "The absorbed queries are right. What happens to a score before the softmax, in every form of attention?",
            _absorbed_with(scale=lambda d, r: 1.0),
        ),
        Finding.like(
            "not transposed",
            "It runs only where heads are as large as latents, and is wrong there. On the side of the query the matrix "
            "stands transposed: over which of its axes is the sum?",
            _absorbed_with(absorb="bhqd,hrd->bhqr"),
        ),
        Finding.like(
            "keys unpacked at the end",
            "Queries and weights are right. The sum of latents is unpacked to a *value*: with which matrix?",
            _absorbed_with(last=lambda k_up, v_up: k_up),
        ),
        Finding.like(
            "the scale is in the query",
            "Weights and output are right. Asked for was a query whose products with the latents are the scores "
            "*before* the scale.",
            _absorbed_with(shown=lambda asked, scale: asked * scale),
        ),
        Finding.like(
            "one set of weights for all heads",
            "All heads read the same latents, but each asks them with a query of its own. How many sets of weights "
            "are there?",
            _absorbed_with(pool=lambda scores: scores.mean(1, keepdim=True).expand_as(scores)),
        ),
        Finding.any(
            "unpacks",
            "The output is right, but something with D numbers is left among the first two: you unpacked keys or "
            "values of every token. Both should have the size of a latent.",
            _unpacked,
        ),
        Finding.any(
            "only the output", "Three things are asked for: absorbed queries, mixed latents, output.", _only_output
        ),
    ),
)
