"""Exercise 05.pairs: how many pairs a causal window leaves."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mhalib.checks import Case, Exercise, Finding, Property

HUGE = "7 queries, 10¹⁵ keys"


def _pairs(seen: Callable[[int, int, int], int] = lambda place, lk, width: min(place + 1, width), corner: bool = True):
    """Sum over the queries of the keys that a query at a place sees."""

    def count(lq: int, lk: int, width: int) -> int:
        return sum(seen(i + (lk - lq if corner else 0), lk, width) for i in range(lq))

    return count


def _pairs_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def between(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    long = 10**15 + between(0, 1000)
    sizes = {
        "as many queries as keys": (n := between(8, 20), n, between(3, 6)),
        "a few queries, a narrow window": (between(3, 6), between(12, 20), between(2, 5)),
        "the window begins to cut halfway": (7, 11, between(6, 9)),
        "a window wider than everything": (between(3, 6), between(8, 12), between(20, 30)),
        "one query": (1, between(8, 20), between(3, 6)),
        "a window of one key": (5, between(6, 9), 1),
        HUGE: (7, long, long - between(2, 6)),
    }
    return [Case(name, dict(zip(("lq", "lk", "width"), row, strict=True))) for name, row in sizes.items()]


PAIRS = Exercise(
    id="05.pairs",
    points=2,
    answer="pairs",
    cases=_pairs_cases,
    reference=_pairs(),
    properties=(Property.equal("counts the pairs"),),
    findings=(
        Finding.any(
            "the mask was built",
            "Counting a mask is a good test for small sizes, but 10¹⁵ keys fit in no memory. How many keys does the "
            "query at place p see?",
            lambda case, got, want: case.name == HUGE and got.error.startswith(("RuntimeError", "MemoryError")),
        ),
        Finding.any(
            "rounded",
            "Right until the numbers get large: a floating-point number holds 53 bits. A count is a whole number; stay "
            "with whole numbers on the way, too.",
            lambda case, got, want: (
                case.name == HUGE and 0 < abs(got.value / want.value - 1) < 0.1 and isinstance(got.value, float)
            ),
        ),
        Finding.like(
            "the corner at the top left",
            "Right for as many queries as keys. With fewer, at which place does the first query stand?",
            _pairs(corner=False),
        ),
        Finding.like(
            "one's own key forgotten",
            "Draw the mask for 3 queries, 3 keys and a window of 1. A query sees its own key too.",
            _pairs(lambda place, lk, width: min(place, width - 1)),
        ),
        Finding.like(
            "the window is one key too wide",
            "How many keys does a query far from the beginning see with a window of `width` keys, its own included?",
            _pairs(lambda place, lk, width: min(place + 1, width + 1)),
        ),
        Finding.like(
            "every window is full",
            "Near the beginning of the sequence there are not `width` keys to see yet.",
            _pairs(lambda place, lk, width: width),
        ),
        Finding.like(
            "no window",
            "Right for a window wider than everything. What of a narrower one?",
            _pairs(lambda place, lk, width: place + 1),
        ),
        Finding.like(
            "both ways",
            "Your window reaches into the future too.",
            _pairs(lambda place, lk, width: min(lk, place + width) - max(0, place - width + 1)),
        ),
    ),
)
