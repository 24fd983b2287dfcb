"""Exercise 15.start: a prediction of what fresh gates do."""

from __future__ import annotations

from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.predictions import between


def predict_start() -> dict[str, float]:
    """What fresh gates do: W₂ = 0, 64 channels, one gate or four in a row, with a sigmoid and with a softmax."""
    return {"gate": 0.5, "sum": 32.0, "four": 1 / 16, "softmax": 1 / 64, "softmax, four": 1 / 64**4}


def _near(key: str, room: float = 0.01):
    return lambda case, got, want: abs(got.value[key] / want.value[key] - 1) < room


START = Exercise(
    id="15.start",
    points=2,
    answer="predict_start",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_start,
    properties=(
        Property.each(
            "five numbers, none below 0",
            lambda case, got, want: set(got.value) == set(want.value) and min(got.value.values()) >= 0,
            hint="Return a dict with five numbers under the names that the docstring shows.",
        ),
        *(Property.each(f"{key}: within 1 % of what is measured", _near(key)) for key in predict_start()),
    ),
    findings=(
        Finding.any(
            "gates start open",
            "Weights of 0 do not leave the map as it is. What is the sigmoid of 0?",
            between("gate", 0.9, 1.1),
        ),
        Finding.any(
            "gates start shut",
            "The *logit* of each gate is 0. What does the sigmoid make of that?",
            between("gate", 0.0, 0.1),
        ),
        Finding.any(
            "gates sum to one",
            "Nothing divides by a sum. There are 64 gates in one layer, and you have said how large each of them is.",
            between("sum", 0.9, 1.1),
        ),
        Finding.any(
            "one gate is as good as four",
            "The second gate multiplies what the first has left, and so on.",
            between("four", 0.4, 0.6),
        ),
        Finding.any(
            "gates are added",
            "Two gates of a half one after the other leave a quarter. How does that go on?",
            between("four", 0.12, 0.26),
        ),
        Finding.any(
            "softmax of a half",
            "A softmax gives each of 64 equal logits the same number too. What do these have to sum to?",
            between("softmax", 0.4, 0.6),
        ),
        Finding.any(
            "softmax, four times the same",
            "Four layers multiply their gates, with a softmax as with a sigmoid.",
            between("softmax, four", 1e-3, 1.0),
        ),
    ),
)
