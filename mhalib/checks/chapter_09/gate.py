"""Exercise 09.gate: a test of a kernel's result against float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property

ROUNDINGS = 8


def passes(got: Tensor, exact: Tensor) -> bool:
    """Whether `got` is `exact` (float64) up to 8 roundings of its dtype, against the largest number."""
    return _passes_with()(got, exact)


def _passes_with(
    bound: Callable = lambda got, exact: ROUNDINGS * torch.finfo(got.dtype).eps,
    size: Callable = lambda exact: exact.abs().max(),
    worst: Callable = lambda error: error.max(),
    holds: Callable = lambda error, bound: bool(error <= bound),
    shapes: bool = True,
    cast: Callable = lambda got, exact: (got.double(), exact),
):
    """The gate with one thing different."""

    def mistaken(got: Tensor, exact: Tensor) -> bool:
        if shapes and got.shape != exact.shape:
            return False
        allowed = bound(got, exact)
        got, exact = cast(got, exact)
        return holds(worst((got - exact).abs() / size(exact)), allowed)

    return mistaken


def _gate_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return scale * torch.randn(shape, generator=generator, dtype=torch.float64)

    def case(name: str, exact: Tensor, dtype: torch.dtype = torch.float32, change: Callable = lambda x: x) -> Case:
        return Case(name, {"got": change(exact.clone()).to(dtype), "exact": exact})

    def put(number: Callable, row: int = 3):
        def change(x: Tensor) -> Tensor:
            x[row, 2] = number(x)
            return x

        return change

    tiny, large, row = normal(40, 16), normal(40, 16, scale=3000.0), normal(1, 16)
    tiny[5, 5] = 1e-12
    far = normal(40, 16).clamp(-3, 3)
    far[0, 0] = 70000.0
    return [
        case("right, float32", normal(40, 16)),
        case("right, float16", normal(40, 16), torch.float16),
        case("right, bfloat16", normal(40, 16), torch.bfloat16),
        case("right, float32, in the thousands", large, change=lambda x: x + 1e-3 * x.sign()),
        case("right, float32, one number near 0", tiny, change=lambda x: x + 1e-7),
        case("wrong, float32 that was float16 on the way", normal(40, 16), change=lambda x: x.half()),
        case("wrong, float32 that was bfloat16 on the way", normal(40, 16), change=lambda x: x.bfloat16()),
        case("wrong, float16, 2 % off", normal(40, 16), torch.float16, lambda x: 1.02 * x),
        case("wrong, one number of 16,000", normal(1000, 16), change=put(lambda x: x[3, 2] + 0.005)),
        case("wrong, zeros where numbers are small", normal(40, 16, scale=1e-7), change=torch.zeros_like),
        case("wrong, NaN in one place", normal(40, 16), change=put(lambda x: math.nan)),
        case("wrong, NaN everywhere", normal(40, 16), change=lambda x: x * math.nan),
        case("wrong, float16 that overflowed", far, torch.float16),
        case("wrong, one row for all rows", row.expand(6, 16).clone(), change=lambda x: x[:1]),
    ]


def _decides(*names: str):
    """Right about all cases whose name begins so."""

    def test(evidence: Evidence) -> bool:
        rows = [(case, got, want) for case, got, want in evidence.rows() if case.name.startswith(names)]
        return all(_answer(got) == want.value for _, got, want in rows)

    return test


def _answer(outcome: Outcome) -> bool:
    """True or False; a tensor of one of them will do."""
    value = outcome.value
    if isinstance(value, Tensor) and value.dtype == torch.bool and value.ndim == 0:
        return bool(value)
    if not isinstance(value, bool):
        raise TypeError("neither True nor False")
    return value


def _refuses_right(evidence: Evidence) -> bool:
    return not any(_answer(got) for case, got, _ in evidence.rows() if case.name.startswith("right"))


GATE = Exercise(
    id="09.gate",
    points=3,
    answer="passes",
    cases=_gate_cases,
    reference=passes,
    properties=(
        Property("lets pass what is right, in each dtype", _decides("right")),
        Property(
            "stops what is wrong", _decides("wrong, float32", "wrong, float16, 2", "wrong, one number", "wrong, z")
        ),
        Property("stops NaN", _decides("wrong, NaN")),
        Property("stops infinity", _decides("wrong, float16 that overflowed")),
        Property("stops another shape", _decides("wrong, one row")),
        Property.pure(),
    ),
    findings=(
        Finding(
            "more than the dtype has",
            "You stop every result, the right ones too. How many digits has a float32, and with what precision did "
            "you compare?",
            _refuses_right,
        ),
        Finding.like(
            "one tolerance for all",
            "Yours allows the same error in every dtype. A float32 result with the error of a float16 is wrong, and a "
            "bfloat16 result with it is good: from which property of the dtype does the tolerance follow?",
            *(_passes_with(bound=lambda got, exact, one=one: one) for one in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)),
        ),
        Finding.like(
            "NaN passes",
            "Finite results are judged rightly. Is NaN larger than your bound? Is it smaller? Ask so that the answer "
            "*no* stops it.",
            _passes_with(holds=lambda error, bound: not bool(error > bound)),
        ),
        Finding.like(
            "the mean hides it",
            "One wrong number among 16,000 moves a mean by next to nothing. Which number of all errors does it move?",
            _passes_with(worst=lambda error: error.mean()),
        ),
        Finding.like(
            "without a size",
            "An error of 0.001 is nothing where the numbers are in the thousands, and everything where they are in "
            "the millionths. What does your error have to be compared with?",
            _passes_with(size=lambda exact: 1.0),
        ),
        Finding.like(
            "each number by itself",
            "You compare each error with its own number. Where large terms cancel and leave nearly 0, the rounding of "
            "the large terms stays: with what should it be compared?",
            _passes_with(size=lambda exact: exact.abs()),
        ),
        Finding.like(
            "broadcasting",
            "A result with one row, where six are expected, passes: subtraction stretches it. What has to be looked at "
            "before subtracting?",
            _passes_with(shapes=False),
        ),
        Finding.like(
            "in the dtype of the result",
            "You round what is exact to the dtype of the result first. 70,000 becomes infinity in float16, and "
            "infinity equals infinity: which of the two has to be converted, and to what?",
            lambda got, exact: (
                got.shape == exact.shape
                and torch.allclose(
                    got,
                    exact.to(got.dtype),
                    rtol=0,
                    atol=ROUNDINGS * torch.finfo(got.dtype).eps * float(exact.abs().max()),
                )
            ),
        ),
    ),
)
