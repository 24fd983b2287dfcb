"""Exercise 09.stall: a prediction of where a sum of ones stops growing."""

from __future__ import annotations

from mhalib.checks import Case, Exercise, Finding, Property


def predict_stall() -> dict[str, int]:
    """Where a sum of ones stops growing, by the dtype of the sum."""
    return {"float16": 2048, "bfloat16": 256, "float32": 16777216}


def _is(**numbers: float):
    return lambda case, got, want: all(got.value[name] == number for name, number in numbers.items())


STALL = Exercise(
    id="09.stall",
    points=2,
    answer="predict_stall",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_stall,
    properties=(
        Property.each(
            "three numbers above 0",
            lambda case, got, want: set(got.value) == set(want.value) and min(got.value.values()) > 0,
            hint="Return a dict with three numbers, as the docstring shows.",
        ),
        *(
            Property.each(
                f"{name}: stops there", lambda case, got, want, name=name: got.value[name] == want.value[name]
            )
            for name in predict_stall()
        ),
    ),
    findings=(
        Finding.any(
            "the largest number",
            "That is how far the format reaches, before infinity. The sum stops long before that: how far apart are "
            "neighbouring numbers there, and how far apart may they be for a 1 to make a difference?",
            lambda case, got, want: got.value["float16"] >= 60000,
        ),
        Finding.any(
            "bfloat16 for float32",
            "In reach bfloat16 equals float32, and it has far fewer digits. How many bits has its mantissa?",
            lambda case, got, want: got.value["bfloat16"] > 1e6,
        ),
        Finding.any(
            "the hidden bit",
            "Half of it. The first 1 of a number is not stored: with 10 stored bits, how many does float16 have?",
            _is(float16=1024, bfloat16=128),
        ),
        Finding.any(
            "the first that cannot be held",
            "That number does not exist in the format, which is why the sum stops. Where does it stand, then?",
            _is(float16=2049, bfloat16=257),
        ),
        Finding.any(
            "twice as far",
            "Numbers there are already 2 apart, so that a 1 lies in the middle. A tie goes to the even neighbour: does "
            "that move the sum?",
            _is(float16=4096, bfloat16=512),
        ),
        Finding.any(
            "the two halves exchanged",
            "Both have 16 bits. Which of them spends more on the exponent, and has less for digits?",
            _is(float16=256, bfloat16=2048),
        ),
        Finding.any(
            "float32 never stops",
            "Large as it is, float32 has such a number too: 23 stored bits of mantissa.",
            lambda case, got, want: got.value["float32"] > 2**25,
        ),
    ),
)
