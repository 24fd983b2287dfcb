"""Exercise 04.decoder_parameters: the parameters of a decoder of the Llama family."""

from __future__ import annotations

import random

from mhalib import configurations, counting
from mhalib.checks import Case, Evidence, Exercise, Finding, Property


def decoder_parameters(
    vocab: int,
    layers: int,
    d_model: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    d_ff: int,
    qkv_bias: bool,
    tied: bool,
) -> int:
    """Parameters of a decoder of the Llama family: gated feed-forward, two norms a layer and one at the end."""
    bias = "qkv" if qkv_bias else False
    attention = counting.attention_parameters(d_model, num_heads, num_kv_heads, head_dim, bias=bias)
    layer = attention + counting.mlp_parameters(d_model, d_ff, gated=True) + 2 * d_model
    return layers * layer + d_model + (1 if tied else 2) * vocab * d_model


REAL = ("Llama 2 7B", "Llama 3 8B", "Qwen2.5 7B", "DeepSeek 67B", "SmolLM2 135M")

UNTIED, TIED = "a made-up one", "the same with one table"


def _decoder_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)

    def real(name: str) -> Case:
        m = configurations.get(name)
        sizes = {n: getattr(m, n) for n in ("vocab", "layers", "d_model", "num_heads", "num_kv_heads", "head_dim")}
        return Case(name, {**sizes, "d_ff": m.d_ff, "qkv_bias": m.attention_bias == "qkv", "tied": m.head == "tied"})

    num_kv_heads, head_dim = draw.choice([2, 3, 5]), draw.choice([24, 40, 48])
    made_up = {
        "vocab": draw.randrange(1000, 5000),
        "layers": draw.randrange(3, 9),
        "d_model": 8 * draw.randrange(20, 40),
        "num_heads": 4 * num_kv_heads,
        "num_kv_heads": num_kv_heads,
        "head_dim": head_dim,
        "d_ff": draw.randrange(500, 900),
        "qkv_bias": True,
        "tied": False,
    }
    every = {**made_up, "num_kv_heads": made_up["num_heads"], "qkv_bias": False, "layers": 1}
    return [
        *map(real, REAL),
        Case(UNTIED, made_up),
        Case(TIED, {**made_up, "tied": True}),
        Case("one layer with a key head for each", every),
    ]


def _decoder_with(
    tables=lambda tied: 1 if tied else 2,
    matrices: int = 3,
    output: bool = True,
    kv=lambda heads, kv_heads: kv_heads,
    size=lambda d_model, heads, head_dim: head_dim,
    norms=lambda layers: 2 * layers + 1,
    biases=lambda inner, inner_kv, d_model: inner + 2 * inner_kv,
):
    """The count with one thing different."""

    def mistaken(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
        head_dim = size(d_model, num_heads, head_dim)
        inner, inner_kv = num_heads * head_dim, kv(num_heads, num_kv_heads) * head_dim
        attention = d_model * ((2 if output else 1) * inner + 2 * inner_kv)
        attention += biases(inner, inner_kv, d_model) if qkv_bias else 0
        layer = attention + matrices * d_model * d_ff
        return layers * layer + norms(layers) * d_model + tables(tied) * vocab * d_model

    return mistaken


def _tying(evidence: Evidence) -> bool:
    case = next(case for case in evidence.cases if case.name == TIED)
    return evidence.got(UNTIED) - evidence.got(TIED) == case.arguments["vocab"] * case.arguments["d_model"]


DECODER_PARAMETERS = Exercise(
    id="04.decoder_parameters",
    points=4,
    answer="decoder_parameters",
    cases=_decoder_cases,
    reference=decoder_parameters,
    properties=(
        Property.each(
            "the totals of five real models, to the last parameter",
            lambda case, got, want: case.name not in REAL or got.value == configurations.get(case.name).total,
        ),
        Property.equal("the totals of made-up models too"),
        Property("a model with one table in the place of two has a table less", _tying),
    ),
    findings=(
        Finding.like(
            "tied table counted twice",
            "Right for models with two tables. Where embedding and output layer are one parameter with two names, how "
            "often does it count?",
            _decoder_with(tables=lambda tied: 2),
        ),
        Finding.like(
            "output layer forgotten",
            "Right for tied models. The others have a second matrix of the size of the embedding: what turns the last "
            "vector into scores for all words?",
            _decoder_with(tables=lambda tied: 1),
        ),
        Finding.like(
            "feed-forward of two matrices",
            "You counted two matrices in a feed-forward block. A gated one has two on the way in and one on the way "
            "out.",
            _decoder_with(matrices=2),
        ),
        Finding.like(
            "no output matrix",
            "You counted query, key and value. What mixes the heads?",
            _decoder_with(output=False),
        ),
        Finding.like(
            "no groups",
            "Right where each query head has a key head of its own. Which of the four matrices get narrower when "
            "several query heads share one?",
            _decoder_with(kv=lambda heads, kv_heads: heads),
        ),
        Finding.like(
            "head_dim by division",
            "Right for the real models, which all have d_model / num_heads numbers in a head. The made-up one has not: "
            "which argument of yours has not been used?",
            _decoder_with(size=lambda d_model, heads, head_dim: d_model // heads),
        ),
        Finding.like(
            "no norms",
            "You are missing (2 · layers + 1) · d_model numbers. What has one weight for each channel?",
            _decoder_with(norms=lambda layers: 0),
        ),
        Finding.like(
            "the last norm",
            "You are missing d_model numbers, once for the whole model. What stands between the last layer and the "
            "output layer?",
            _decoder_with(norms=lambda layers: 2 * layers),
        ),
        Finding.like(
            "a bias on the output matrix",
            "Right without biases. The text says which matrices have one: not all four.",
            _decoder_with(biases=lambda inner, inner_kv, d_model: inner + 2 * inner_kv + d_model),
        ),
        Finding.like(
            "biases as wide as the input",
            "Right without biases. A bias has one number for each *output* of its matrix: how many outputs has that of "
            "the keys?",
            _decoder_with(biases=lambda inner, inner_kv, d_model: 3 * d_model),
        ),
    ),
)
