"""Exercise 02.attend: attention from the formula, output and weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import mhalib
from mhalib.checks import Case, Exercise, Finding, Outcome, Property


def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Output (..., Lq, Dv) and weights (..., Lq, Lk) of scaled dot-product attention."""
    four = [x[(None,) * (4 - x.ndim)] for x in (query, key, value)]
    output, weights = mhalib.attention(*four, backend="reference", return_weights=True)
    return output.reshape(*query.shape[:-1], -1), weights.reshape(*query.shape[:-1], -1)


def _attend_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, *shape: int, lk: int, dv: int, size: float = 1.0, gradients: tuple[str, ...] = ()) -> Case:
        """`shape` is that of the query, (..., Lq, D)."""
        front, dims = shape[:-2], shape[-1]
        shapes = {"query": shape, "key": (*front, lk, dims), "value": (*front, lk, dv)}
        arguments = {name: torch.randn(s, generator=generator, dtype=torch.float64) for name, s in shapes.items()}
        arguments["query"] *= size
        return Case(name, arguments, gradients)

    plain = case("5 queries, 7 keys", 5, 8, lk=7, dv=3, gradients=("query", "key", "value"))
    order = torch.randperm(7, generator=generator)
    shuffled = {name: x if name == "query" else x[order] for name, x in plain.arguments.items()}
    return [
        plain,
        Case("the same keys, shuffled", shuffled),
        case("one query", 1, 16, lk=6, dv=16),
        case("as many keys as numbers", 4, 9, lk=9, dv=5),
        case("2 sequences of 3 heads", 2, 3, 5, 4, lk=6, dv=7),
        case("scores in the thousands", 3, 8, lk=5, dv=8, size=4000.0),
    ]


def _scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    return query @ key.mT * scale


def _attend_with(scale=lambda q, k, v: 1 / math.sqrt(q.shape[-1]), softmax=lambda scores: scores.softmax(-1)):
    """A head with one thing different."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        weights = softmax(_scores(query, key, scale(query, key, value)))
        return weights @ value, weights

    return mistaken


def _rows_sum_to_one(case: Case, got: Outcome, want: Outcome) -> bool:
    total = got.value[1].sum(dim=-1)
    return torch.allclose(total, torch.ones_like(total))


def _only_output(case: Case, got: Outcome, want: Outcome) -> bool:
    return isinstance(got.value, Tensor) and got.value.shape == want.value[0].shape


def _swapped(case: Case, got: Outcome, want: Outcome) -> bool:
    first, second = got.value
    return torch.allclose(first, want.value[1]) and torch.allclose(second, want.value[0])


ATTEND = Exercise(
    id="02.attend",
    points=4,
    answer="attend",
    cases=_attend_cases,
    reference=attend,
    properties=(
        Property.equal(),
        Property.each("the weights of each query sum to 1", _rows_sum_to_one),
        Property(
            "the order of the keys does not matter",
            lambda e: torch.allclose(e.got("5 queries, 7 keys")[0], e.got("the same keys, shuffled")[0]),
        ),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "no scale",
            "The scores grow with the number of entries in a query. Which step of the formula keeps their size the "
            "same whatever that number is?",
            _attend_with(scale=lambda q, k, v: 1.0),
        ),
        Finding.like(
            "divided by d",
            "You divided by the variance of the scores. What has to be divided by to make the variance 1?",
            _attend_with(scale=lambda q, k, v: 1 / q.shape[-1]),
        ),
        Finding.like(
            "scale from the length",
            "Your scale depends on how many keys there are. It belongs to the sum inside one score: how many terms "
            "does that have?",
            _attend_with(scale=lambda q, k, v: 1 / math.sqrt(k.shape[-2])),
        ),
        Finding.like(
            "softmax over the queries",
            "Sum your weights over one axis, then over the other. For which of them does the total have to be 1, and "
            "for which is it?",
            _attend_with(softmax=lambda scores: scores.softmax(-2)),
        ),
        Finding.like(
            "exponentials overflow",
            "Right for small scores. Scores in the thousands have exponentials that no format holds: what may be "
            "subtracted from all scores of a row without changing its weights?",
            _attend_with(softmax=lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True)),
        ),
        Finding.any(
            "only the output",
            "Two things are asked for: the output and the weights, in this order.",
            _only_output,
        ),
        Finding.any("output and weights swapped", "Both are there, in the wrong order: the output first.", _swapped),
    ),
)
