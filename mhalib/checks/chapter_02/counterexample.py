"""Exercise 02.counterexample: tokens of which one looks at another, with query = key = value."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mhalib.checks import Case, Exercise, Finding, Outcome, Property


def counterexample() -> Tensor:
    """Tokens (L, D) of which one, with query = key = value = x, gives most weight to another."""
    return torch.tensor([[1.0, 0.0], [3.0, 0.0]], dtype=torch.float64)


def _tokens(got: Outcome) -> Tensor:
    x = got.value
    fine = isinstance(x, Tensor) and x.ndim == 2 and x.is_floating_point() and len(x) > 1
    if not (fine and x.isfinite().all()):
        raise ValueError("not tokens")
    return x.double()


def _margin(got: Outcome) -> float:
    """Largest weight on another token minus weight on oneself, in the row where that is largest."""
    x = _tokens(got)
    weights = (x @ x.T / math.sqrt(x.shape[1])).softmax(dim=-1)
    others = weights.masked_fill(torch.eye(len(x), dtype=torch.bool), -math.inf)
    return (others.amax(dim=-1) - weights.diagonal()).max().item()


def _equal_lengths(case: Case, got: Outcome, want: Outcome) -> bool:
    length = _tokens(got).norm(dim=-1)
    return torch.allclose(length, length[:1].expand_as(length), rtol=1e-3) and bool(length[0] > 0)


COUNTEREXAMPLE = Exercise(
    id="02.counterexample",
    points=3,
    answer="counterexample",
    cases=lambda seed: [Case("your tokens")],
    reference=counterexample,
    properties=(
        Property.each("a matrix (L, D) of finite floats, L at least 2", lambda case, got, want: _tokens(got).numel()),
        Property.each(
            "in some row the largest weight is on another token", lambda case, got, want: _margin(got) > 1e-6
        ),
    ),
    findings=(
        Finding.any(
            "one token",
            "A token that is alone has nobody else to look at.",
            lambda case, got, want: got.value.ndim == 1 or len(got.value) < 2,
        ),
        Finding.any(
            "whole numbers",
            "A softmax needs floating-point numbers: give the tensor such a dtype.",
            lambda case, got, want: not got.value.is_floating_point(),
        ),
        Finding.any(
            "nothing but zeros",
            "All your scores are 0, so all weights are equal and nobody wins.",
            lambda case, got, want: not _tokens(got).any(),
        ),
        Finding.any(
            "equal lengths",
            "Your tokens are all of the same length. For those, x · y is at most x · x (Cauchy and Schwarz): no other "
            "token can win. What else may differ?",
            _equal_lengths,
        ),
        Finding.any(
            "lengths differ, directions too",
            "The lengths differ, which is needed. Now look at the row of the *short* token: for another token to win "
            "there, should it point in the same direction, or away?",
            lambda case, got, want: _margin(got) <= 1e-6,
        ),
    ),
)
