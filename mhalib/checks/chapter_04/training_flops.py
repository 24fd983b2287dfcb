"""Exercise 04.training_flops: the FLOPs of a causal attention layer, forward and backward."""

from __future__ import annotations

import random

from mhalib import counting
from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.chapter_04._shared import same_value


def training_flops(length: int, d_model: int, num_heads: int, num_kv_heads: int, head_dim: int, skips: bool) -> int:
    """FLOPs of one causal attention layer, forward and backward, for one sequence."""
    flops = counting.attention_flops(length, d_model, num_heads, num_kv_heads, head_dim, causal=skips, training=True)
    return flops.total


def _flops_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)

    def pair(name: str, *sizes: int) -> list[Case]:
        arguments = dict(zip(("length", "d_model", "num_heads", "num_kv_heads", "head_dim"), sizes, strict=True))
        plain = Case(f"{name}, all scores computed", {**arguments, "skips": False})
        return [plain, Case(f"{name}, hidden ones skipped", {**arguments, "skips": True})]

    length, d_model, num_kv_heads = 2 * draw.randrange(40, 90), draw.randrange(100, 300), draw.choice([2, 3])
    return [
        *pair("8 heads of 64", 1024, 512, 8, 8, 64),
        *pair("Llama 3 8B", 8192, 4096, 32, 8, 128),
        *pair("T5-11B", 512, 1024, 128, 128, 128),
        *pair("made up", length, d_model, 4 * num_kv_heads, num_kv_heads, 8 * draw.randrange(3, 9)),
    ]


def _flops_with(
    per_multiply: float = 2,
    times: float = 3,
    pairs=lambda n, skips: n * (n + 1) / 2 if skips else n * n,
    matrices: int = 2,
    projected_kv=lambda heads, kv_heads: kv_heads,
    scored=lambda d_model, heads, kv_heads, head_dim: heads * head_dim,
):
    """The bill with one thing different. `matrices`: query and output."""

    def mistaken(length, d_model, num_heads, num_kv_heads, head_dim, skips):
        columns = (matrices * num_heads + 2 * projected_kv(num_heads, num_kv_heads)) * head_dim
        projections = length * d_model * columns
        products = 2 * pairs(length, skips) * scored(d_model, num_heads, num_kv_heads, head_dim)
        return times * per_multiply * (projections + products)

    return mistaken


TRAINING_FLOPS = Exercise(
    id="04.training_flops",
    points=3,
    answer="training_flops",
    cases=_flops_cases,
    reference=training_flops,
    properties=(
        Property.each(
            "right for programs that compute all scores", lambda c, g, w: c.arguments["skips"] or same_value(g, w)
        ),
        Property.each("right for kernels that skip", lambda c, g, w: not c.arguments["skips"] or same_value(g, w)),
    ),
    findings=(
        Finding.like(
            "multiply-adds",
            "You counted multiplications and not the additions: exactly half of the FLOPs.",
            _flops_with(per_multiply=1),
        ),
        Finding.like(
            "forward only",
            "A third of the right number: this is the forward pass. What does backpropagation through a product need?",
            _flops_with(times=1),
        ),
        Finding.like(
            "backward as dear as forward",
            "Two thirds of the right number. A product has two factors: how many products of that size does its "
            "backward pass take?",
            _flops_with(times=2),
        ),
        Finding.like(
            "the half that was not earned",
            "Right for kernels that skip. A program that computes all scores and hides half of them afterwards: which "
            "multiplications has it saved?",
            _flops_with(pairs=lambda n, skips: n * (n + 1) / 2),
        ),
        Finding.like(
            "no causal saving",
            "Right for programs that compute all scores. A kernel that skips the hidden ones multiplies for visible "
            "pairs only.",
            _flops_with(pairs=lambda n, skips: n * n),
        ),
        Finding.like(
            "half to the last pair",
            "Nearly: you took half of the N² pairs. A token sees itself too: how many pairs are there for 2 tokens, "
            "and for 3?",
            _flops_with(pairs=lambda n, skips: n * n / 2 if skips else n * n),
        ),
        Finding.like(
            "groups in the scores",
            "Right where nothing is shared. Each *query* head computes scores of its own: how many are there?",
            _flops_with(scored=lambda d_model, heads, kv_heads, head_dim: kv_heads * head_dim),
        ),
        Finding.like(
            "no groups",
            "Right where nothing is shared. With fewer key heads, two of the four projections have fewer columns.",
            _flops_with(projected_kv=lambda heads, kv_heads: heads),
        ),
        Finding.like(
            "no output matrix",
            "One projection is missing: query, key, value, and which?",
            _flops_with(matrices=1),
        ),
        Finding.like(
            "scores by d_model",
            "Right where heads times head_dim make d_model. How many products are summed in all scores of one pair of "
            "tokens, over all heads?",
            _flops_with(scored=lambda d_model, heads, kv_heads, head_dim: d_model),
        ),
    ),
)
