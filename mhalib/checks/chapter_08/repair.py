"""Exercise 08.repair: a tiled program, to be repaired."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

import mhalib
from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.chapter_08._shared import item_is_right


def repaired(query: Tensor, key: Tensor, value: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Output (Lq, D) and natural lse (Lq,)."""
    four = [x[None, None] for x in (query, key, value)]
    output, lse = mhalib.attention(*four, backend="reference", return_lse=True)
    return output[0, 0], lse[0, 0]


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, lq: int, lk: int, block: int, growth: float = 0.0) -> Case:
        shapes = {"query": (lq, 6), "key": (lk, 6), "value": (lk, 6)}
        given = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
        given["key"] *= 1 + growth * torch.arange(lk, dtype=torch.float64)[:, None]
        return Case(name, {**given, "block": block})

    return [
        case("8 keys, blocks of 4", 5, 8, 4),
        case("7 keys, blocks of 3", 4, 7, 3),
        case("6 keys, one block of 6", 3, 6, 6),
        case("5 keys, one block of 8", 4, 5, 8),
        case("scores that grow", 5, 9, 3, growth=0.5),
        case("blocks of one key", 2, 5, 1),
    ]


def _halfway(
    mask: bool = True, rescale: bool = True, lse: Callable = lambda m, total: (m + total.log2()) * math.log(2)
):
    """The program of the exercise with some of its three faults repaired."""

    def program(query: Tensor, key: Tensor, value: Tensor, block: int) -> tuple[Tensor, Tensor]:
        missing = -len(key) % block
        long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
        m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
        output = torch.zeros_like(query)
        for start in range(0, len(key), block):
            cols = slice(start, start + block)
            scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 / math.log(2))
            if mask:
                scores = scores.masked_fill(torch.arange(start, start + block) >= len(key), -math.inf)
            new_m = torch.maximum(m, scores.amax(-1))
            weights, factor = torch.exp2(scores - new_m[:, None]), torch.exp2(m - new_m)
            total = factor * total + weights.sum(-1)
            output = (factor[:, None] if rescale else 1) * output + weights @ long_value[cols]
            m = new_m
        return output / total[:, None], lse(m, total)

    return program


def _base_two(m: Tensor, total: Tensor) -> Tensor:
    return m + total.log2()


REPAIR = Exercise(
    id="08.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.each("the output", item_is_right(0)),
        Property.each("the lse", item_is_right(1)),
        Property.equal("both, in shape and dtype"),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Three things are wrong: one at the end of the keys, one from "
            "block to block, one in the last line.",
            _halfway(mask=False, rescale=False, lse=_base_two),
        ),
        Finding.like(
            "only the last block",
            "The last block is right, two faults are left. Try one block for all keys: the output is right then. What "
            "happens to it when a second block comes? And what is the lse of a single score of 0 and one of 1?",
            _halfway(rescale=False, lse=_base_two),
        ),
        Finding.like(
            "only the rescale",
            "From block to block it is right, two faults are left. Give it values that are all 1, in blocks that do "
            "not divide the length; and compare its lse with `torch.logsumexp`.",
            _halfway(mask=False, lse=_base_two),
        ),
        Finding.like(
            "only the lse",
            "The base is right, two faults are left, both in the output. Try one block of just the right size, then "
            "a larger one, then two.",
            _halfway(mask=False, rescale=False),
        ),
        Finding.like(
            "the lse is still in base 2",
            "The output is right. The lse is off by the same factor everywhere; which numbers did your exponential "
            "and your logarithm belong to?",
            _halfway(lse=_base_two),
        ),
        Finding.like(
            "the output is still not rescaled",
            "Right for a single block, and the lse always. When the maximum rises, the sum shrinks; what else was "
            "summed under the old maximum?",
            _halfway(rescale=False),
        ),
        Finding.like(
            "the last block still leaks",
            "Right where the blocks divide the length. Elsewhere the weights do not sum to 1: the keys that were put "
            "in to fill the block have the score 0, and 2⁰ is not 0.",
            _halfway(mask=False),
        ),
        Finding.like(
            "two bases in one lse",
            "The output is right. Your maximum is in units of base 2, and you add a natural logarithm to it.",
            _halfway(lse=lambda m, total: m + total.log()),
        ),
        Finding.like(
            "converted the wrong way",
            "The output is right. log₂ x is larger than ln x; did your lse become smaller?",
            _halfway(lse=lambda m, total: (m + total.log2()) / math.log(2)),
        ),
    ),
)
