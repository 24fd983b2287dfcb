"""Exercise 08.moved: the bytes that a tiled kernel moves."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mhalib.checks import Case, Exercise, Finding, Property


def _counted(
    keys: Callable = lambda rows, length, block_q, block_k: min(length, -(-rows.stop // block_k) * block_k),
    streams: int = 2,
    lse: int = 1,
    again: bool = False,
) -> Callable[..., int]:
    """Numbers moved; `keys`: how many go by for a block of queries, `again`: queries loaded for each tile."""

    def moved(length: int, head_dim: int, block_q: int, block_k: int) -> int:
        total = 0
        for start in range(0, length, block_q):
            rows = range(start, min(start + block_q, length))
            seen = keys(rows, length, block_q, block_k)
            loads = -(-seen // block_k) if again else 1
            total += len(rows) * (head_dim * loads + head_dim + lse) + streams * head_dim * seen
        return total

    return moved


def _moved_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)
    prime = [23, 29, 31, 37, 41, 43][int(torch.randint(6, (), generator=generator))]
    dims = 4 * int(torch.randint(1, 9, (), generator=generator))
    sizes = {
        "blocks that divide the length": (64, dims, 8, 8),
        "blocks that do not": (prime, dims, 5, 4),
        "wide blocks of keys": (prime, dims, 4, 9),
        "tall blocks of queries": (prime, dims, 9, 2),
        "one tile": (10, dims, 16, 16),
        "one query at a time": (prime, dims, 1, 6),
        "131,072 tokens": (131_072, 64, 128, 64),
    }
    names = ("length", "head_dim", "block_q", "block_k")
    return [Case(name, dict(zip(names, row, strict=True))) for name, row in sizes.items()]


def _half(length: int, head_dim: int, block_q: int, block_k: int) -> int:
    return length * (2 * head_dim + 1) + -(-length // block_q) * length * head_dim


MOVED = Exercise(
    id="08.moved",
    points=3,
    answer="moved",
    cases=_moved_cases,
    reference=_counted(),
    properties=(Property.equal("counts the numbers moved"),),
    findings=(
        Finding.like(
            "no tile is skipped",
            "This is the count without a causal mask. Which tiles does no query of a block have to look at?",
            _counted(lambda rows, length, block_q, block_k: length),
        ),
        Finding.like(
            "half of all",
            "Half is what is left of the *pairs*, nearly. The tiles on the diagonal are loaded whole, though half of "
            "each is hidden.",
            _half,
        ),
        Finding.like(
            "the diagonal is forgotten",
            "You count the tiles that lie wholly in the past. Who loads a query's own key?",
            _counted(lambda rows, length, block_q, block_k: rows.start // block_k * block_k),
        ),
        Finding.like(
            "only the keys that are seen",
            "A tile is loaded whole, or not at all. You stop at the last query's own key, in the middle of a tile.",
            _counted(lambda rows, length, block_q, block_k: rows.stop),
        ),
        Finding.like(
            "as many tiles as blocks of queries",
            "Right for square tiles. With 9 queries and 2 keys a tile, how many tiles does the *last* query of the "
            "first block reach into?",
            _counted(lambda rows, length, block_q, block_k: min(length, (rows.start // block_q + 1) * block_k)),
        ),
        Finding.like(
            "the last tile is full",
            "Right where the blocks of keys divide the length. The last one is shorter elsewhere: behind the end "
            "there is nothing to load.",
            _counted(lambda rows, length, block_q, block_k: -(-rows.stop // block_k) * block_k),
        ),
        Finding.like(
            "keys or values, not both",
            "Two tensors go by for each block of queries.",
            _counted(streams=1),
        ),
        Finding.like(
            "the lse is forgotten",
            "One number a query is missing: what does the backward pass need beside the output?",
            _counted(lse=0),
        ),
        Finding.like(
            "queries loaded for each tile",
            "A block of queries stays on the chip while the keys go by. How often is it loaded?",
            _counted(again=True),
        ),
    ),
)
