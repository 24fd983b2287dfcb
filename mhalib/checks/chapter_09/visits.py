"""Exercise 09.visits: the tiles of keys that each block of queries has to visit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mhalib.checks import Case, Exercise, Finding, Outcome, Property
from mhalib.checks.chapter_09._shared import pick


def visits(lq: int, lk: int, block_q: int, block_k: int, causal: bool, window: int | None) -> list[tuple[int, int]]:
    """For each block of queries the first tile of keys that it needs, and the one behind the last; (0, 0) for none."""
    position, keys = torch.arange(lq)[:, None] + lk - lq, torch.arange(lk)
    visible = torch.ones(lq, lk, dtype=torch.bool)
    if causal:
        visible &= keys <= position
    if window is not None:
        visible &= keys > position - window
    seen = [block.any(dim=0).nonzero() for block in visible.split(block_q)]
    return [(int(k.min()) // block_k, int(k.max()) // block_k + 1) if len(k) else (0, 0) for k in seen]


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _visits_with(
    programs: Callable = _up,
    tiles: Callable = _up,
    shift: Callable = lambda lq, lk: lk - lq,
    last: Callable = lambda begin, end: end - 1,
    first: Callable = lambda begin, end: begin,
    stop: bool = True,
    skip: bool = True,
    width: Callable = lambda window: window,
    floor: Callable = lambda number: max(0, number),
):
    """The same from the ends of each block, with one thing different."""

    def mistaken(lq: int, lk: int, block_q: int, block_k: int, causal: bool, window: int | None) -> list:
        rows = []
        for program in range(programs(lq, block_q)):
            begin, end = program * block_q, min((program + 1) * block_q, lq)
            stops = min(lk, last(begin, end) + shift(lq, lk) + 1) if causal and stop else lk
            starts = 0
            if window is not None and skip:
                starts = max(0, first(begin, end) + shift(lq, lk) - width(window) + 1)
            rows.append((starts // block_k, tiles(floor(stops), block_k)))
        return rows

    return mistaken


def _visits_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, lq: int, lk: int, block_q: int, block_k: int, causal: bool = True, window: int | None = None):
        sizes = {"lq": lq, "lk": lk, "block_q": block_q, "block_k": block_k}
        return Case(name, {**sizes, "causal": causal, "window": window})

    more, fewer = pick(generator, 90, 120), pick(generator, 61, 79)
    return [
        case("19 queries, 19 keys, everything visible", 19, 19, 8, 8, causal=False),
        case("19 queries, 19 keys, causal", 19, 19, 8, 8),
        case("more keys than queries, causal", fewer, more, 16, 8),
        case("7 queries at the end of 40 keys", 7, 40, 16, 8),
        case("more queries than keys", 45, 21, 8, 8),
        case("a window of 17 in tiles of 16", 64, 64, 16, 16, window=17),
        case("a window of 5, more keys than queries", fewer, more, 16, 4, window=5),
        case("a window wider than the text", 33, 33, 16, 8, window=100),
        case("a window, more queries than keys", 50, 30, 8, 4, window=3),
    ]


def _rows(outcome: Outcome) -> list[tuple[int, int]]:
    value = outcome.value.tolist() if isinstance(outcome.value, Tensor) else outcome.value
    return [(int(first), int(stop)) for first, stop in value]


def _missing(case: Case, got: Outcome, want: Outcome) -> bool:
    pairs = zip(_rows(got), _rows(want), strict=True)
    return all(set(range(*wanted)) <= set(range(*had)) for had, wanted in pairs)


VISITS = Exercise(
    id="09.visits",
    points=4,
    answer="visits",
    cases=_visits_cases,
    reference=visits,
    properties=(
        Property.each("one row for each program", lambda case, got, want: len(_rows(got)) == len(_rows(want))),
        Property.each("no tile that is needed is left out", _missing),
        Property.each("no tile is visited in vain", lambda case, got, want: _rows(got) == _rows(want)),
    ),
    findings=(
        Finding.like(
            "programs rounded down",
            "Take 19 queries in blocks of 8: which program owns query 16?",
            _visits_with(programs=lambda a, b: a // b),
        ),
        Finding.like(
            "tiles rounded down",
            "Take 19 keys in tiles of 8: who visits key 16?",
            _visits_with(tiles=lambda a, b: a // b),
        ),
        Finding.like(
            "top left corner",
            "Right for as many queries as keys. 7 queries at the end of 40 keys: at which key does the first of them "
            "stand?",
            _visits_with(shift=lambda lq, lk: 0),
        ),
        Finding.like(
            "the first query decides the end",
            "Some queries lose keys that they may see. All queries of a block walk together: which of them sees "
            "furthest to the right?",
            _visits_with(last=lambda begin, end: begin),
        ),
        Finding.like(
            "all tiles to the right",
            "No result would be wrong with this, and a causal kernel would do twice the work. Which tiles lie wholly "
            "in the future of a block?",
            _visits_with(stop=False),
        ),
        Finding.like(
            "the last query decides the beginning",
            "With a window, some queries lose keys that they may see. Which query of the block looks back furthest?",
            _visits_with(first=lambda begin, end: end - 1),
        ),
        Finding.like(
            "all tiles to the left",
            "No result would be wrong with this, and a window would save nothing on the left. Which tiles lie behind "
            "the window of every query of a block?",
            _visits_with(skip=False),
        ),
        Finding.like(
            "a window one too wide",
            "A window of 17 counts the query's own key. A query at position 32: which is the first of its 17 keys?",
            _visits_with(width=lambda window: window + 1),
        ),
        Finding.any(
            "less than nothing",
            "There are numbers below 0 in yours. With more queries than keys the first blocks see nothing at all: how "
            "is that to be said?",
            lambda case, got, want: min(min(row) for row in _rows(got)) < 0,
        ),
    ),
)
