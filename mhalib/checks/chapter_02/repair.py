"""Exercise 02.repair: a program with heads behind the length, of which two lines are wrong."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import mhalib
from mhalib.checks import Case, Evidence, Exercise, Finding, Property


def repaired(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention (B, L, H, D) of heads that stand behind the length."""
    first = [x.transpose(1, 2) for x in (query, key, value)]  # (B, H, L, D)
    return mhalib.attention(*first, backend="reference").transpose(1, 2)


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, *shape: int, lk: int) -> Case:
        shapes = {"query": shape, "key": (shape[0], lk, *shape[2:]), "value": (shape[0], lk, *shape[2:])}
        return Case(name, {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()})

    company = case("more keys than queries", 1, 4, 2, 4, lk=7)
    return [
        case("2 sequences, 3 heads", 2, 5, 3, 8, lk=5),
        case("as many heads as positions", 1, 4, 4, 6, lk=4),
        company,
        Case("its first query alone", {**company.arguments, "query": company.arguments["query"][:, :1]}),
    ]


def _repaired_with(dim: int = 2, width=lambda q: q.shape[3], first: bool = False):
    """The program of the exercise, with one choice or more still wrong."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = torch.einsum("bihd,bjhd->bijh", query, key) / math.sqrt(width(query))
        output = torch.einsum("bijh,bjhd->bihd", scores.softmax(dim=dim), value)
        return output.transpose(1, 2) if first else output

    return mistaken


def _width(query: Tensor) -> int:
    return query.shape[2] * query.shape[3]


def _company(evidence: Evidence) -> bool:
    company, alone = evidence.got("more keys than queries"), evidence.got("its first query alone")
    return torch.allclose(company[:, :1], alone)


REPAIR = Exercise(
    id="02.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("equals the formula in each head"),
        Property("a query alone gets the same answer as in company", _company),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Two lines of it are wrong: one decides which numbers add up to "
            "1, the other how large the scores are.",
            _repaired_with(dim=1, width=_width),
        ),
        Finding.like(
            "the axis is still wrong",
            "The scale is right now. The scores are laid out (B, query, key, head): which of these has to sum to 1?",
            _repaired_with(dim=1),
        ),
        Finding.like(
            "the scale is still wrong",
            "The weights add up to 1 now. How many products are summed in one score of one head?",
            _repaired_with(width=_width),
        ),
        Finding.like(
            "softmax over the heads",
            "The last axis is the right one for scores laid out (B, head, query, key). What stands last here?",
            _repaired_with(dim=-1),
        ),
        Finding.like(
            "softmax over the heads, and the scale",
            "Look again at both lines. The last axis of these scores is not the keys, and a score is a sum over one "
            "head's numbers only.",
            _repaired_with(dim=-1, width=_width),
        ),
        Finding.like(
            "heads in front",
            "The numbers are right. The caller hands in (B, L, H, D) and wants that order back.",
            _repaired_with(first=True),
        ),
    ),
)
