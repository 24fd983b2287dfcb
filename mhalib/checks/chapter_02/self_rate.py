"""Exercise 02.self_rate: a prediction of how often a token looks at itself."""

from __future__ import annotations

from mhalib.checks import Case, Exercise, Finding, Outcome, Property
from mhalib.checks.predictions import near

N_TOKENS = 16


def predict_self_rate() -> dict[str, float]:
    """Share of the rows whose largest weight is on the token itself, for 16 random tokens of 64 numbers."""
    return {"tied": 1.0, "two matrices": 1 / N_TOKENS}


def _guessed(tied: tuple[float, float], free: tuple[float, float]):
    """Whether both predictions lie in the given ranges."""

    def test(case: Case, got: Outcome, want: Outcome) -> bool:
        pairs = ((got.value["tied"], tied), (got.value["two matrices"], free))
        return all(low <= guess <= high for guess, (low, high) in pairs)

    return test


FORM = "Return a dict with two numbers from 0 to 1, as the docstring shows."

SELF_RATE = Exercise(
    id="02.self_rate",
    points=2,
    answer="predict_self_rate",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_self_rate,
    properties=(
        Property.each("two shares between 0 and 1", _guessed(tied=(0, 1), free=(0, 1)), hint=FORM),
        Property.each("tied: within 0.02 of what is measured", near("tied", 0.02)),
        Property.each("two matrices: within 0.02 of what is measured", near("two matrices", 0.02)),
    ),
    findings=(
        Finding.any(
            "in percent",
            "A share is a number from 0 to 1.",
            lambda case, got, want: max(got.value.values()) > 1,
        ),
        Finding.any(
            "a head always looks at itself",
            "With two random matrices a query and its own key are as unrelated as a query and any other key.",
            _guessed(tied=(0.98, 1), free=(0.5, 1)),
        ),
        Finding.any(
            "chance in both",
            "With query = key the score of a token with itself is a sum of squares. How large is it, and how large "
            "are the others?",
            _guessed(tied=(0, 0.2), free=(0.0425, 0.0825)),
        ),
        Finding.any(
            "the other way round",
            "You gave the number of one case to the other. In which of them are a token's query and key equal?",
            _guessed(tied=(0, 0.2), free=(0.9, 1)),
        ),
        Finding.any(
            "never by chance",
            "Nothing keeps a token from being its own favourite. Among 16 keys that are all alike to a query, how "
            "often does one of them come first?",
            _guessed(tied=(0.98, 1), free=(0, 0.02)),
        ),
    ),
)
