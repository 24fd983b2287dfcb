"""Exercise 04.repair: a program that counts the tokens that fit into memory, to be repaired."""

from __future__ import annotations

import random

from mhalib import configurations, counting
from mhalib.checks import Case, Exercise, Finding, Property


def repaired(config: dict[str, int], memory: int, sequences: int) -> int:
    """Tokens of each of `sequences` sequences whose cache fits into `memory` bytes beside the weights."""
    per_token = counting.kv_cache_bytes(config["layers"], config["num_kv_heads"], config["head_dim"], 1)
    return max(memory - 2 * config["parameters"], 0) // (per_token * sequences)


def _repair_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)
    names = ("layers", "d_model", "num_heads", "num_kv_heads", "head_dim")

    def real(name: str, gib: int, sequences: int) -> Case:
        m = configurations.get(name)
        config = {n: getattr(m, n) for n in names} | {"parameters": configurations.parameters(m)}
        title = f"{name}, {sequences} sequences, {gib} GiB"
        return Case(title, {"config": config, "memory": gib * 2**30, "sequences": sequences})

    made_up = {"layers": draw.randrange(3, 30), "d_model": 512, "num_heads": 8, "num_kv_heads": 8, "head_dim": 80}
    made_up["parameters"] = draw.randrange(10**6, 10**7)
    return [
        real("Llama 2 7B", 24, 4),
        real("Llama 3 8B", 24, 4),
        real("Qwen3 30B-A3B", 80, 16),
        real("PaLM 540B", 1280, 64),
        real("PaLM 540B", 80, 1),
        Case(
            "made up, each head for itself",
            {"config": made_up, "memory": draw.randrange(10**9, 10**10), "sequences": 3},
        ),
    ]


def _repaired_with(division: bool = False, all_heads: bool = False, negative: bool = False):
    """The program of the exercise with one mistake or more left in."""

    def mistaken(config, memory, sequences):
        head_dim = config["d_model"] // config["num_heads"] if division else config["head_dim"]
        heads = config["num_heads"] if all_heads else config["num_kv_heads"]
        room = memory - 2 * config["parameters"]
        return (room if negative else max(room, 0)) // (4 * config["layers"] * heads * head_dim * sequences)

    return mistaken


REPAIR = Exercise(
    id="04.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("tokens that fit, to the last one"),
        Property.each("never fewer than 0", lambda case, got, want: got.value >= 0),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Three things are wrong: two sizes that it takes for a token, and "
            "what it says where the weights alone do not fit.",
            _repaired_with(division=True, all_heads=True, negative=True),
        ),
        Finding.like(
            "only 0 is right",
            "Where nothing fits you are right now. A token still costs what d_model says; which two sizes make it?",
            _repaired_with(division=True, all_heads=True),
        ),
        Finding.like(
            "query heads, and below 0",
            "The size of a head is read now. Which heads leave something in the cache? And what should a reader make "
            "of fewer than 0 tokens?",
            _repaired_with(all_heads=True, negative=True),
        ),
        Finding.like(
            "head_dim by division, and below 0",
            "The heads are right now. Does a head of every model have d_model / num_heads numbers? And what should a "
            "reader make of fewer than 0 tokens?",
            _repaired_with(division=True, negative=True),
        ),
        Finding.like(
            "query heads",
            "One thing is left. Query heads leave nothing behind for later tokens: which heads do?",
            _repaired_with(all_heads=True),
        ),
        Finding.like(
            "head_dim by division",
            "One thing is left. For PaLM 540B and Qwen3 30B-A3B, compare d_model / num_heads with the head_dim that "
            "the configuration states.",
            _repaired_with(division=True),
        ),
        Finding.like(
            "below 0",
            "One thing is left. How many tokens fit beside weights that do not fit themselves?",
            _repaired_with(negative=True),
        ),
    ),
)
