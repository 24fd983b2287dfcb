"""Exercise 09.least_time: the least time that attention takes on a chip."""

from __future__ import annotations

from collections.abc import Callable

import torch

from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.chapter_09._shared import pick
from mhalib.checks.compare import difference


def least_time(
    batch: int,
    queries: int,
    keys: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    number_bytes: int,
    tflops: float,
    tbps: float,
) -> tuple[float, str]:
    """Microseconds that attention takes at least on a chip, and what the limit is: "memory" or "arithmetic"."""
    return _time_with()(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps)


def _all_bytes(b: int, lq: int, lk: int, h: int, kv: int, d: int, size: int) -> int:
    return size * (2 * b * h * lq * d + 2 * b * kv * lk * d)


def _time_with(
    flops: Callable = lambda b, lq, lk, h, kv, d: 4 * b * h * lq * lk * d,
    moved: Callable = _all_bytes,
    join: Callable = max,
    name: Callable = lambda memory, arithmetic, flops, moved: "memory" if memory > arithmetic else "arithmetic",
):
    """The roofline with one thing different."""

    def mistaken(
        batch: int,
        queries: int,
        keys: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        number_bytes: int,
        tflops: float,
        tbps: float,
    ) -> tuple[float, str]:
        operations = flops(batch, queries, keys, num_heads, num_kv_heads, head_dim)
        read = moved(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes)
        memory, arithmetic = read / (tbps * 1e6), operations / (tflops * 1e6)
        return join(memory, arithmetic), name(memory, arithmetic, operations, read)

    return mistaken


CHIPS = {"A100": (312.0, 2.039), "L4": (121.0, 0.300), "H100": (989.0, 3.35)}


def _time_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, chip: str, batch: int, queries: int, keys: int, heads: tuple[int, int, int], size: int = 2):
        sizes = {"batch": batch, "queries": queries, "keys": keys, "number_bytes": size}
        sizes |= {"num_heads": heads[0], "num_kv_heads": heads[1], "head_dim": heads[2]}
        return Case(f"{name}, {chip}", {**sizes, "tflops": CHIPS[chip][0], "tbps": CHIPS[chip][1]})

    n = 64 * pick(generator, 40, 100)
    return [
        case("a prompt", "L4", 2, n, n, (32, 8, 128)),
        case("a prompt", "H100", 3, n, n, (32, 32, 64)),
        case("one token, all heads", "A100", 8, 1, n, (32, 32, 128)),
        case("one token, groups of 8", "H100", 16, 1, n, (64, 8, 128)),
        case("one token, one key head, 1 byte a number", "L4", 4, 1, n, (48, 1, 256), size=1),
        case("17 tokens, groups of 4", "H100", 4, 17, n, (32, 8, 128)),
        case("a short prompt", "A100", 5, 48, 48, (12, 12, 64)),
    ]


LEAST_TIME = Exercise(
    id="09.least_time",
    points=3,
    answer="least_time",
    cases=_time_cases,
    reference=least_time,
    properties=(
        Property.each(
            "the microseconds",
            lambda case, got, want: not difference(got.value[0], want.value[0]) and len(got.value) == 2,
        ),
        Property.each("what the limit is", lambda case, got, want: got.value[1] == want.value[1]),
    ),
    findings=(
        Finding.like(
            "one after the other",
            "You add the two times. A kernel reads the next tile while it works on this one: which of the two is left "
            "as a limit, if both go on side by side?",
            _time_with(join=lambda memory, arithmetic: memory + arithmetic),
        ),
        Finding.like(
            "the shorter time",
            "Both jobs have to be done. Is the kernel finished when the first of them is?",
            _time_with(join=min),
        ),
        Finding.like(
            "half of the operations",
            "There are two matrix products, scores and weighted sum, and a multiply-add counts as two operations. "
            "Which of the two have you counted?",
            _time_with(flops=lambda b, lq, lk, h, kv, d: 2 * b * h * lq * lk * d),
        ),
        Finding.like(
            "keys once for each query head",
            "Right without groups. The query heads of a group read the same keys: how often do those have to come "
            "from memory?",
            _time_with(moved=lambda b, lq, lk, h, kv, d, size: _all_bytes(b, lq, lk, h, h, d, size)),
        ),
        Finding.like(
            "operations by key heads",
            "Right without groups. Each *query* head meets every key: grouping saves bytes. Does it save products?",
            _time_with(flops=lambda b, lq, lk, h, kv, d: 4 * b * kv * lq * lk * d),
        ),
        Finding.like(
            "keys without values",
            "Half of what has to be read of the past is missing. What is multiplied by the weights?",
            _time_with(moved=lambda b, lq, lk, h, kv, d, size: size * (2 * b * h * lq * d + b * kv * lk * d)),
        ),
        Finding.like(
            "keys and values alone",
            "Nearly right where there is one query. In a prompt, what else is read, and what is written?",
            _time_with(moved=lambda b, lq, lk, h, kv, d, size: size * 2 * b * kv * lk * d),
        ),
        Finding.like(
            "one sequence's bytes",
            "The operations are those of the whole batch. Whose keys and values did you read?",
            _time_with(moved=lambda b, *others: _all_bytes(1, *others)),
        ),
        Finding.like(
            "the limit by its name",
            "The time is right. The limit is what takes *longer*.",
            _time_with(name=lambda memory, arithmetic, *_: "memory" if memory < arithmetic else "arithmetic"),
        ),
        Finding.like(
            "operations against bytes",
            "The time is right. More operations than bytes does not yet mean that arithmetic is the limit: how many "
            "operations for each byte does the chip want?",
            _time_with(name=lambda m, a, flops, moved: "memory" if flops < moved else "arithmetic"),
        ),
    ),
)
