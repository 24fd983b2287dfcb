"""Exercise 04.crossover: a prediction of the length at which the quadratic part costs as much as the rest."""

from __future__ import annotations

from mhalib import configurations
from mhalib.checks import Case, Exercise, Finding, Outcome, Property

LAYER = "Llama 3 8B"


def predict_crossover() -> dict[str, int]:
    """The length at which the quadratic part of a layer of Llama 3 8B costs as much as the rest."""
    m = configurations.get(LAYER)
    attention = m.d_model * (m.num_heads + m.num_kv_heads) // m.num_heads
    return {"attention": attention, "layer": attention + 3 * m.d_ff // 2}


def _lengths(got: Outcome) -> tuple[float, float]:
    if set(got.value) != {"attention", "layer"}:
        raise ValueError("not two lengths")
    attention, layer = (float(got.value[key]) for key in ("attention", "layer"))
    if not (0 < attention < 1e9 and 0 < layer < 1e9):
        raise ValueError("not two lengths")
    return attention, layer


def _about(index: int, *lengths: float, room: float = 0.02):
    """Whether a prediction is one of these lengths: 0 is that of the attention, 1 that of the whole layer."""
    return lambda case, got, want: any(abs(_lengths(got)[index] / n - 1) < room for n in lengths)


def _alike(case: Case, got: Outcome, want: Outcome) -> bool:
    attention, layer = _lengths(got)
    return abs(layer / attention - 1) < 0.02


CROSSOVER = Exercise(
    id="04.crossover",
    points=2,
    answer="predict_crossover",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_crossover,
    properties=(
        Property.each(
            "two lengths above 0",
            lambda case, got, want: _lengths(got),
            hint="Return a dict with two numbers of tokens, as the docstring shows.",
        ),
        Property.each("attention: within 2 % of what is measured", _about(0, 5120)),
        Property.each("layer: within 2 % of what is measured", _about(1, 26_624)),
    ),
    findings=(
        Finding.any(
            "2 · d_model",
            "N = 2 · d_model holds where each query head has a key head of its own. This model groups them: which "
            "side of the balance gets lighter?",
            _about(0, 8192),
        ),
        Finding.any(
            "half of the quadratic part",
            "Your first length is twice the right one. Either you counted one of the two quadratic products, or half "
            "of each; here both are there, and all pairs are computed.",
            _about(0, 10_240),
        ),
        Finding.any(
            "heads counted again",
            "A head is num_heads times narrower than all of them together. Your scores cost num_heads times too much.",
            _about(0, 160),
        ),
        Finding.any(
            "feed-forward forgotten",
            "Both lengths are the same. The feed-forward block is linear in N too: on which side of the balance does "
            "it stand?",
            _alike,
        ),
        Finding.any(
            "the other way round",
            "The feed-forward block adds to what is linear in N. Does the quadratic part then overtake earlier or "
            "later?",
            lambda case, got, want: _lengths(got)[0] > _lengths(got)[1],
        ),
        Finding.any(
            "two matrices",
            "Your feed-forward block has two matrices. A gated one has three, of d_model by d_ff each.",
            _about(1, 19_456),
        ),
        Finding.any(
            "the block of a textbook",
            "That is a feed-forward block of 8 · d_model² weights. Look at d_ff in the configuration, and at the gate.",
            _about(1, 21_504, 24_576),
        ),
    ),
)
