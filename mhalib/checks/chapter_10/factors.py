"""Exercise 10.factors: a prediction of what fewer key heads save."""

from __future__ import annotations

from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.predictions import between

ROOM = 0.05


def predict_factors() -> dict[str, float]:
    """What is left of each, of 1, when Llama 3 8B has 8 key heads in the place of 32."""
    return {"cache": 0.25, "projections": 0.625, "scores": 1.0, "step": 0.884}


def _near(key: str):
    return lambda case, got, want: abs(got.value[key] - want.value[key]) <= ROOM


FACTORS = Exercise(
    id="10.factors",
    points=2,
    answer="predict_factors",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_factors,
    properties=(
        Property.each(
            "four shares, above 0 and at most 1",
            lambda case, got, want: (
                set(got.value) == set(want.value) and all(0 < share <= 1 for share in got.value.values())
            ),
            hint="Return a dict with four numbers above 0 and up to 1, as the docstring shows.",
        ),
        Property.each("cache: within 0.05", _near("cache")),
        Property.each("projections: within 0.05", _near("projections")),
        Property.each("scores: within 0.05", _near("scores")),
        Property.each("step: within 0.05", _near("step")),
    ),
    findings=(
        Finding.any(
            "how many times less",
            "What is asked for is what is *left*, new over old: a number of at most 1.",
            lambda case, got, want: max(got.value.values()) > 1,
        ),
        Finding.any(
            "always an eighth",
            "An eighth is what another model got. How many key heads were there before, and how many are there now?",
            between("cache", 0.12, 0.13),
        ),
        Finding.any(
            "cheaper scores",
            "Grouped or not: how many query heads are there, and with how many keys does each of them make a product?",
            between("scores", 0, 0.9),
        ),
        Finding.any(
            "all projections shrink",
            "A layer has four projections. Which of them make keys and values, and which do not?",
            between("projections", 0.2, 0.4),
        ),
        Finding.any(
            "projections stay",
            "Keys and values are made by matrices of d_model by key heads · head_dim numbers. Fewer heads, fewer rows.",
            between("projections", 0.9, 1),
        ),
        Finding.any(
            "the cache is all that is read",
            "One user with 1,000 tokens: compare the bytes of the cache with the bytes of the weights, which a step "
            "reads too.",
            between("step", 0, 0.7),
        ),
        Finding.any(
            "the weights stay as they were",
            "Next to nothing comes from so small a cache, that is right. But the weights that are read are fewer too: "
            "how many numbers have the key and value matrices of 32 layers lost?",
            between("step", 0.95, 1),
        ),
    ),
)
