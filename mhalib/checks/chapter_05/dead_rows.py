"""Exercise 05.dead_rows: attention in which a query may see nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

import mhalib
from mhalib import masks
from mhalib.checks import Case, Exercise, Finding, Property


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Attention (B, H, Lq, D) under a boolean mask; a query that may see nothing gets 0."""
    whole = mask.expand(*mask.shape[:-2], query.shape[2], key.shape[2])
    return mhalib.attention(query, key, value, mask=whole, backend="reference")


def _dead_rows_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, shape: tuple[int, ...], lk: int, mask: Tensor, dtype: torch.dtype = torch.float64) -> Case:
        """`shape` is that of the query, (B, H, Lq, D)."""
        shapes = {"query": shape, "key": (*shape[:2], lk, shape[3]), "value": (*shape[:2], lk, shape[3])}
        drawn = {n: torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for n, s in shapes.items()}
        names = () if dtype == torch.float16 else ("query", "key", "value")
        return Case(name, {**drawn, "mask": mask}, gradients=names)

    def random_mask(lq: int, lk: int) -> Tensor:
        """Some keys of each row are visible and some are not."""
        order = torch.rand(lq, lk, generator=generator).argsort(dim=-1)
        return order < torch.randint(1, lk, (lq, 1), generator=generator)

    one_dead = random_mask(5, 7)
    one_dead[torch.randint(5, (1,), generator=generator)] = False
    half = random_mask(4, 6)
    half[1] = False
    return [
        case("no dead row", (2, 3, 5, 4), 7, random_mask(5, 7)),
        case("one dead row", (2, 3, 5, 4), 7, one_dead),
        case("an empty sequence in the batch", (3, 2, 4, 5), 6, masks.padding(torch.tensor([6, 0, 2]), 6)),
        case("nobody sees anything", (1, 1, 2, 4), 3, torch.zeros(2, 3, dtype=torch.bool)),
        case("everybody sees everything", (1, 2, 3, 4), 5, torch.ones(3, 5, dtype=torch.bool)),
        case("half precision, one dead row", (1, 2, 4, 8), 6, half, torch.float16),
    ]


def _masked(
    score: Callable[[Tensor, Tensor], Tensor], weigh: Callable = lambda w, m: w, finish: Callable | None = None
):
    """Attention with the mask applied to the scores, to the weights, or to the output."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        output = weigh(score(scores, mask).softmax(dim=-1), mask) @ value
        return finish(output, mask) if finish else output

    return mistaken


def _infinite(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -math.inf)


def _zeros_if_all_dead(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return _masked(_infinite)(query, key, value, mask) if mask.any() else 0 * query


def _dead(case: Case) -> Tensor:
    """bool (B, H, Lq)"""
    return masks.dead_rows(case.arguments["mask"]).expand(case.arguments["query"].shape[:3])


DEAD_ROWS = Exercise(
    id="05.dead_rows",
    points=4,
    answer="attend",
    cases=_dead_rows_cases,
    reference=attend,
    properties=(
        Property.equal(),
        Property.each("a query that sees nothing gets 0", lambda c, got, want: (got.value[_dead(c)] == 0).all()),
        Property.each(
            "no NaN in any gradient", lambda c, got, want: all(g.isfinite().all() for g in got.gradients.values())
        ),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "the dead row is NaN",
            "Right wherever a key is left. In a dead row all scores are −∞; what does the softmax subtract from them "
            "first?",
            _masked(_infinite),
        ),
        Finding.like(
            "blanked too late",
            "The outputs are right, the gradients are not: the weights of a dead row are still NaN when they meet the "
            "values, and on the way back 0 · NaN is NaN. At which point have they to be replaced?",
            _masked(_infinite, finish=lambda output, mask: output.nan_to_num()),
        ),
        Finding.like(
            "added and blanked",
            "The outputs are right, the gradients of query and key are not. Adding −∞ lets the NaN of a dead row's "
            "softmax flow back through the sum. Is there an operation that passes no gradient where it hides?",
            _masked(lambda s, m: s + masks.to_additive(m, s.dtype), lambda w, m: w.nan_to_num()),
        ),
        Finding.like(
            "minus a billion",
            "Two things: one dtype of these inputs cannot hold −1e9, and where it can, a dead row gets the mean of "
            "all that it must not see.",
            _masked(lambda s, m: s.masked_fill(~m, -1e9)),
        ),
        Finding.like(
            "the smallest finite number",
            "No NaN, but look at the output of a dead row and at the mean of the values. Equal scores, however "
            "small, give equal weights.",
            _masked(lambda s, m: s.masked_fill(~m, torch.finfo(s.dtype).min)),
        ),
        Finding.like(
            "weights set to zero",
            "The dead rows are 0, but in the others the weights do not sum to 1: the softmax has seen the hidden "
            "keys. What has to be hidden from it?",
            _masked(lambda s, m: s, lambda w, m: w * m),
        ),
        Finding.like(
            "only if all are dead",
            "You ask whether *anybody* sees anything. A single dead row among living ones is still NaN.",
            _zeros_if_all_dead,
        ),
        Finding.like(
            "True hides",
            "The dead rows are handled, for the opposite mask. Which way round does this course read True?",
            _masked(lambda s, m: s.masked_fill(m, -math.inf), lambda w, m: w.masked_fill(m, 0.0)),
        ),
    ),
)
