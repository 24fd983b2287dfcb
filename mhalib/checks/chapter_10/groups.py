"""Exercise 10.groups: query heads that share key heads."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

import mhalib
from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property
from mhalib.checks.chapter_10._shared import normal


def grouped(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention (B, H, Lq, Dv) of H query heads that share Hkv key heads, aligned at the last key."""
    return mhalib.attention(query, key, value, causal=True, backend="reference")


def _groups_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, batch: int, heads: tuple[int, int], lq: int, lk: int, gradients: tuple[str, ...] = ()) -> Case:
        shapes = {"query": (heads[0], lq, 8), "key": (heads[1], lk, 8), "value": (heads[1], lk, 5)}
        return Case(name, {n: normal(generator, batch, *shape) for n, shape in shapes.items()}, gradients)

    return [
        case("6 query heads on 3 key heads", 2, (6, 3), 5, 5, gradients=("query", "key", "value")),
        case("6 query heads on 2 key heads, 4 queries, 9 keys", 1, (6, 2), 4, 9),
        case("one query, 7 keys", 3, (4, 2), 1, 7),
        case("one key head", 1, (4, 1), 3, 6),
        case("as many key heads as query heads", 2, (3, 3), 4, 4),
        case("6 query heads, 4 key heads", 1, (6, 4), 3, 3),
    ]


def _lower(rows: int, columns: int, shift: int) -> Tensor:
    """True where column ≤ row + shift."""
    return torch.arange(columns) <= torch.arange(rows)[:, None] + shift


def _grouped_with(repeat: Callable | None = None, seen: Callable | None = None, join: Callable = lambda x, group: x):
    """The formula with one thing different."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        group, lq, lk = query.shape[1] // key.shape[1], query.shape[2], key.shape[2]
        for_all = repeat or (lambda x, group: x.repeat_interleave(group, dim=1))
        scores = query @ for_all(key, group).mT / math.sqrt(query.shape[-1])
        mask = seen(lq, lk, group) if seen else _lower(lq, lk, lk - lq)
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        return join(weights @ for_all(value, group), group)

    return mistaken


def _numbered_through(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Queries of a group side by side as rows, and the mask of that many rows."""
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    scores = rows @ key.mT / math.sqrt(query.shape[-1])
    mask = _lower(rows.shape[2], key.shape[2], key.shape[2] - query.shape[2])
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    return (weights @ value).unflatten(2, (-1, query.shape[2])).flatten(1, 2)


def _numbered_back(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same, aligned at the last row of the group."""
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    return mhalib.attention(rows, key, value, causal=True).unflatten(2, (-1, query.shape[2])).flatten(1, 2)


def _right_where_it_divides(evidence: Evidence, refused: Callable[[Outcome, Outcome], bool]) -> bool:
    values = [evidence.same(got, want) for _, got, want in evidence.rows() if want.error is None]
    return all(values) and all(refused(got, want) for _, got, want in evidence.rows() if want.error is not None)


GROUPS = Exercise(
    id="10.groups",
    points=3,
    answer="grouped",
    cases=_groups_cases,
    reference=grouped,
    properties=(
        Property.equal("equals causal attention with each key head used by its group"),
        Property.same_gradients(),
        Property.refuses("refuses, with a ValueError, key heads that do not divide the query heads"),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "tile",
            "With one key head, or as many as query heads, this is right. In between: write down which key head each "
            "query head reads. Are the heads of a group neighbours?",
            _grouped_with(repeat=lambda x, group: x.repeat(1, group, 1, 1)),
        ),
        Finding.like(
            "top left corner",
            "Right for as many queries as keys. With 4 queries and 9 keys, 5 keys were there before the first query: "
            "how many does it see in yours?",
            _grouped_with(seen=lambda lq, lk, group: _lower(lq, lk, 0)),
        ),
        Finding.like(
            "no mask",
            "Right for one query at the end. Change the last key: for which queries may the output change?",
            _grouped_with(seen=lambda lq, lk, group: _lower(lq, lk, lk)),
        ),
        Finding.like(
            "rows numbered through",
            "The queries of a group are rows of one product now, G times Lq of them. Row Lq is the first query of "
            "another head, not a later one. What position does it have?",
            _numbered_through,
            _numbered_back,
        ),
        Finding.like(
            "heads come back in another order",
            "Each head's numbers are right, and they stand in the place of another head. Look at the step that joins "
            "key heads and members of a group into one axis: which of them has to vary fastest?",
            _grouped_with(join=lambda x, group: x.unflatten(1, (-1, group)).transpose(1, 2).flatten(1, 2)),
        ),
        Finding(
            "no refusal",
            "Right wherever the key heads divide the query heads. 6 query heads on 4 key heads have no equal groups, "
            "and yours gives numbers for them. What should happen instead?",
            lambda e: _right_where_it_divides(e, lambda got, want: got.error is None),
        ),
        Finding(
            "another kind of error",
            "It stops where the heads do not divide, with an error that an operation on the way happens to raise. The "
            "caller needs a ValueError that says what is wrong: look at the sizes before you compute.",
            lambda e: _right_where_it_divides(e, lambda got, want: got.error is not None),
        ),
    ),
)
