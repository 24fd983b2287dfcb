"""Exercise 14.repair: one layer of a rollout that discards small weights, to be repaired."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mhalib import saliency
from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.chapter_14._shared import divided, only_writes, rows_sum_to_one


def repaired(attention: Tensor, count: int) -> Tensor:
    """One layer of rollout (T, T), with the `count` smallest weights outside of column 0 discarded."""
    tokens = len(attention)
    return saliency.rollout(attention[None, None, None], discard=count / (tokens * (tokens - 1)))[0]


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, tokens: int, count: int, column: float = 0.0) -> Case:
        """`column` is added to the scores of the class token."""
        scores = torch.randn(tokens, tokens, generator=generator, dtype=torch.float64)
        scores[:, 0] += column
        return Case(name, {"attention": scores.softmax(dim=-1), "count": count})

    return [
        case("5 tokens, 8 weights go", 5, 8),
        case("the class token is read least", 6, 9, column=-4.0),
        case("the class token is read most", 4, 5, column=4.0),
        case("all but one go", 5, 19),
        case("nothing goes", 6, 0),
    ]


def _pruned(attention: Tensor, count: int, spared: str, after: bool) -> Tensor:
    """`after`: chosen among all weights, those spared taken out of the choice; else chosen among the others."""
    keep = torch.zeros_like(attention, dtype=torch.bool)
    keep[{"entry": (0, 0), "row": 0, "column": (slice(None), 0)}[spared]] = True
    ranked = attention if after else attention.masked_fill(keep, math.inf)
    gone = torch.zeros(attention.numel(), dtype=torch.bool)
    gone[ranked.flatten().argsort(stable=True)[:count]] = True
    return attention.masked_fill(gone.view_as(keep) & ~keep, 0.0)


def _repaired_with(spared: str = "column", after: bool = False, divide=divided):
    """The program of the exercise, with one choice or more still wrong."""

    def mistaken(attention: Tensor, count: int) -> Tensor:
        identity = torch.eye(len(attention), dtype=attention.dtype)
        return divide((_pruned(attention, count, spared, after) + identity) / 2)

    return mistaken


def _no_keepdim(mixed: Tensor) -> Tensor:
    return mixed / mixed.sum(dim=-1)


REPAIR = Exercise(
    id="14.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("equals one layer of rollout without the smallest weights"),
        Property.each("each row sums to 1", rows_sum_to_one),
        Property.each(
            "every token still holds some of the class token", lambda case, got, want: (got.value[:, 0] > 0).all()
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Two lines of it are wrong: one decides what is spared, the other "
            "which sums become 1.",
            _repaired_with("entry", after=True, divide=_no_keepdim),
        ),
        Finding.like(
            "one entry spared",
            "The rows sum to 1 now. The line that spares the class token still compares places in the *flattened* "
            "matrix with a single number: how many places there belong to column 0?",
            _repaired_with("entry", after=True),
        ),
        Finding.like(
            "the division is still wrong",
            "The class column stays now. Sum the rows of your result: T sums in one dimension are laid along the "
            "columns by broadcasting.",
            _repaired_with(divide=_no_keepdim),
        ),
        Finding.like(
            "columns divided",
            "The class column stays. Now every column sums to 1, and every row should.",
            _repaired_with(divide=lambda mixed: mixed / mixed.sum(dim=-2, keepdim=True)),
        ),
        Finding.like(
            "not divided",
            "Discarding makes rows lighter. What brings their sums back to 1?",
            _repaired_with(divide=lambda mixed: mixed),
        ),
        Finding.like(
            "fewer go",
            "The class column is spared, but after the choice: fewer weights than `count` become 0. Among which ones "
            "are the smallest to be looked for?",
            _repaired_with(after=True),
        ),
        Finding.like(
            "the row is spared",
            "Row 0 is what the class token reads. Which numbers say how much *others* read of the class token?",
            _repaired_with("row"),
        ),
        Finding(
            "writes into the attention",
            "Your result is right, and the caller's attention has lost its small weights too: `flatten` of a "
            "contiguous tensor is a view of it.",
            only_writes,
        ),
    ),
)
