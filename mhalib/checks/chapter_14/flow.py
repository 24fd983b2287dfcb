"""Exercise 14.flow: a prediction about rollout."""

from __future__ import annotations

from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.predictions import near

N_TOKENS = 9


def predict_flow() -> dict[str, float]:
    """The class token's own share in a rollout of uniform attention, and a correlation."""
    own = {f"{depth} layers": 0.5**depth + (1 - 0.5**depth) / N_TOKENS for depth in (2, 12)}
    return own | {"head shuffled": 1.0}


def _guessed(**ranges: tuple[float, float]):
    """Whether the predictions lie in the given ranges: `two`, `twelve`, `head`."""
    keys = {"two": "2 layers", "twelve": "12 layers", "head": "head shuffled"}
    return lambda case, got, want: all(low <= got.value[keys[k]] <= high for k, (low, high) in ranges.items())


FLOW = Exercise(
    id="14.flow",
    points=2,
    answer="predict_flow",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_flow,
    properties=(
        Property.each(
            "two shares from 0 to 1 and a correlation from −1 to 1",
            _guessed(two=(0, 1), twelve=(0, 1), head=(-1, 1)),
            hint="Return a dict with three numbers, as the docstring shows.",
        ),
        Property.each("2 layers: within 0.01 of what is measured", near("2 layers", 0.01)),
        Property.each("12 layers: within 0.01 of what is measured", near("12 layers", 0.01)),
        Property.each("head shuffled: within 0.01 of what is measured", near("head shuffled", 0.01)),
    ),
    findings=(
        Finding.any(
            "in percent", "A share is a number from 0 to 1.", lambda case, got, want: max(got.value.values()) > 1
        ),
        Finding.any(
            "the residual alone",
            "You followed what never leaves the class token. Attention brings some of it back: each token reads all "
            "nine, the class token among them.",
            _guessed(two=(0.24, 0.26), twelve=(0, 0.02)),
        ),
        Finding.any(
            "attention alone",
            "One ninth is what uniform attention gives by itself. What part of the class token does not go through "
            "attention at all in a layer?",
            _guessed(two=(0.1, 0.12)),
        ),
        Finding.any(
            "one layer",
            "That is the share after a single layer. The second one halves again what came straight through.",
            _guessed(two=(0.545, 0.565)),
        ),
        Finding.any(
            "half whatever the depth",
            "One half goes straight on in *each* layer. How much has gone straight on after two?",
            _guessed(two=(0.49, 0.51)),
        ),
        Finding.any(
            "fades to nothing",
            "Right for 2 layers. With many layers the straight path fades; a row of the rollout still sums to 1, so "
            "where has the rest gone?",
            _guessed(two=(0.32, 0.345), twelve=(0, 0.02)),
        ),
        Finding.any(
            "the head matters",
            "In which order does the model compute its attention weights and its logits? Then what can the weights of "
            "the head change?",
            _guessed(head=(-1, 0.99)),
        ),
    ),
)
