"""Exercise 03.repair: a program of grouped attention with heads side by side, to be repaired."""

from __future__ import annotations

import torch
from torch import Tensor

import mhalib
from mhalib.checks import Case, Evidence, Exercise, Finding, Property
from mhalib.checks.chapter_03._shared import (
    drawer,
    join_heads,
    join_without_transpose,
    split_heads,
    split_without_transpose,
)


def repaired(query: Tensor, key: Tensor, value: Tensor, num_heads: int, num_kv_heads: int) -> Tensor:
    """Grouped attention (B, Lq, H · D) of heads side by side: query (B, Lq, H · D), key, value (B, Lk, Hkv · D)."""
    key, value = split_heads(key, num_kv_heads), split_heads(value, num_kv_heads)
    return join_heads(mhalib.attention(split_heads(query, num_heads), key, value, backend="reference"))


TWO_GROUPS, ALONE = "4 query heads, 2 key heads", "its first query alone"


def _repair_cases(seed: int) -> list[Case]:
    draw = drawer(seed)

    def case(name: str, batch: int, lq: int, lk: int, num_heads: int, num_kv_heads: int, head_dim: int) -> Case:
        query = draw(batch, lq, num_heads * head_dim)
        key, value = (draw(batch, lk, num_kv_heads * head_dim) for _ in range(2))
        sizes = {"num_heads": num_heads, "num_kv_heads": num_kv_heads}
        return Case(name, {"query": query, "key": key, "value": value, **sizes})

    company = case(TWO_GROUPS, 2, 5, 7, 4, 2, 3)
    return [
        company,
        Case(ALONE, {**company.arguments, "query": company.arguments["query"][:, :1]}),
        case("as many queries as heads, 3 key heads", 1, 6, 4, 6, 3, 4),
        case("one key head for all", 2, 3, 5, 4, 1, 2),
        case("a key head for each", 1, 4, 6, 3, 3, 5),
    ]


def _grouped_with(split=split_heads, join=join_without_transpose, tiled: str = "kv"):
    """The program of the exercise, with one choice or more changed; `tiled` says whose partners are wrong."""

    def mistaken(query, key, value, num_heads, num_kv_heads):
        def spread(x: Tensor, name: str) -> Tensor:
            groups, x = num_heads // num_kv_heads, split_heads(x, num_kv_heads)
            return x.repeat(1, groups, 1, 1) if name in tiled else x.repeat_interleave(groups, dim=1)

        query, key, value = split(query, num_heads), spread(key, "k"), spread(value, "v")
        weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
        return join(weights @ value)

    return mistaken


def _alone(evidence: Evidence) -> bool:
    return torch.allclose(evidence.got(TWO_GROUPS)[:, :1], evidence.got(ALONE))


REPAIR = Exercise(
    id="03.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("equals a loop over the query heads"),
        Property("a query alone gets the same answer as in company", _alone),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. It has two mistakes: one decides with whom a query head speaks, "
            "the other to which token an output belongs.",
            _grouped_with(),
        ),
        Finding.like(
            "the join is still wrong",
            "The partners are right now. Ask one query alone, then in company: what becomes of its answer on the way "
            "out?",
            _grouped_with(tiled=""),
        ),
        Finding.like(
            "the partners are still wrong",
            "The way out is right now. With 4 query heads and 2 key heads, which key head should query head 1 read, "
            "and which one does it read?",
            _grouped_with(join=join_heads),
        ),
        Finding.like(
            "values still tiled",
            "The keys are cured. A query head has to read the values of the head whose keys it was compared with.",
            _grouped_with(join=join_heads, tiled="v"),
        ),
        Finding.like(
            "keys still tiled",
            "The values are cured. The scores still compare a query head with the keys of another group.",
            _grouped_with(join=join_heads, tiled="k"),
        ),
        Finding.like(
            "queries cut to fit",
            "You changed the way in to suit the way out. Now the queries of a head are pieces of other tokens, as in "
            "section 5 of the chapter.",
            _grouped_with(split=split_without_transpose, tiled=""),
        ),
    ),
)
