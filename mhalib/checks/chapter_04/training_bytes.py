"""Exercise 04.training_bytes: the bytes that training takes."""

from __future__ import annotations

import random

from mhalib import configurations, counting
from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.chapter_04._shared import same_value


def training_bytes(
    parameters: int, layers: int, num_heads: int, num_kv_heads: int, sequences: int, length: int, tiled: bool
) -> int:
    """Bytes of weights, gradients, Adam's state, and of what attention keeps for the backward pass."""
    kept = 4 * sequences * num_heads * length
    if not tiled:
        kept = counting.score_matrix_bytes(sequences, num_heads, length, length, bytes_per_value=2)
    return 16 * parameters + layers * kept


def _bytes_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)
    m = configurations.get("Llama 3 8B")
    llama = {n: getattr(m, n) for n in ("layers", "num_heads", "num_kv_heads")} | {
        "parameters": configurations.parameters(m)
    }
    made_up = {
        "parameters": draw.randrange(10**6, 10**7),
        "layers": draw.randrange(3, 20),
        "num_heads": 12,
        "num_kv_heads": draw.choice([2, 3, 4, 6]),
        "sequences": draw.randrange(5, 20),
        "length": draw.randrange(100, 1000),
    }
    every = {**made_up, "num_kv_heads": 12, "sequences": 1}
    sizes = {
        "Llama 3 8B, 2 sequences of 8,192": {**llama, "sequences": 2, "length": 8192},
        "made up": made_up,
        "one sequence, a key head for each": every,
    }
    kinds = {"all kept": False, "tiled": True}
    return [
        Case(f"{name}, {kind}", {**a, "tiled": tiled}) for name, a in sizes.items() for kind, tiled in kinds.items()
    ]


def _bytes_with(
    per_parameter: int = 16,
    layered: bool = True,
    heads=lambda heads, kv_heads: heads,
    batched: bool = True,
    plain=lambda n: 2 * n * n,
    tiles=lambda n: 4 * n,
):
    """The bill with one thing different."""

    def mistaken(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
        kept = (tiles if tiled else plain)(length) * heads(num_heads, num_kv_heads) * (sequences if batched else 1)
        return per_parameter * parameters + (layers if layered else 1) * kept

    return mistaken


TRAINING_BYTES = Exercise(
    id="04.training_bytes",
    points=3,
    answer="training_bytes",
    cases=_bytes_cases,
    reference=training_bytes,
    properties=(
        Property.each(
            "right where all weights of attention are kept", lambda c, g, w: c.arguments["tiled"] or same_value(g, w)
        ),
        Property.each("right for a tiled kernel", lambda c, g, w: not c.arguments["tiled"] or same_value(g, w)),
    ),
    findings=(
        Finding.like(
            "the weights alone",
            "Of each parameter you counted the 2 bytes of the weight. What else does the list name?",
            _bytes_with(per_parameter=2),
        ),
        Finding.like(
            "all in 2 bytes",
            "That is 8 bytes a parameter: you took 2 for everything. The list says which numbers are held in 4.",
            _bytes_with(per_parameter=8),
        ),
        Finding.like(
            "one of the five forgotten",
            "That is 12 bytes a parameter: 4 are missing. How many numbers of 4 bytes does the list name for each "
            "parameter?",
            _bytes_with(per_parameter=12),
        ),
        Finding.like(
            "one layer",
            "You counted what one layer keeps. The backward pass begins at the last layer: from which of them is "
            "something still needed by then?",
            _bytes_with(layered=False),
        ),
        Finding.like(
            "key heads",
            "Right where nothing is shared. Which heads have rows of weights of their own?",
            _bytes_with(heads=lambda heads, kv_heads: kv_heads),
        ),
        Finding.like(
            "one sequence",
            "Right for one sequence. Each of them has its own weights of attention.",
            _bytes_with(batched=False),
        ),
        Finding.like(
            "a tiled kernel keeps nothing",
            "Right where everything is kept. A tiled kernel keeps little, not nothing: one number for each row.",
            _bytes_with(tiles=lambda n: 0),
        ),
        Finding.like(
            "tiles make no difference",
            "Right where everything is kept. What does a tiled kernel write down in the place of N² numbers?",
            _bytes_with(tiles=lambda n: 2 * n * n),
        ),
        Finding.like(
            "scores kept in 4 bytes",
            "Right for tiles. The weights of attention are held in as many bytes as the layer computes with: look at "
            "the text.",
            _bytes_with(plain=lambda n: 4 * n * n),
        ),
    ),
)
