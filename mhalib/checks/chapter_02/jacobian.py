"""Exercise 02.jacobian: the derivative of a softmax by its scores."""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.checks import Case, Exercise, Finding, Property


def jacobian(p: Tensor) -> Tensor:
    """The derivative (..., n, n) of a softmax by its scores, from the weights p (..., n)."""
    return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]


def _jacobian_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def weights(*shape: int, size: float = 1.0) -> dict[str, Tensor]:
        scores = torch.randn(shape, generator=generator, dtype=torch.float64) * size
        return {"p": scores.softmax(dim=-1)}

    return [
        Case("5 weights", weights(5)),
        Case("one weight", weights(1)),
        Case("3 rows of 4", weights(3, 4)),
        Case("4 rows of 4", weights(4, 4)),
        Case("2 heads of 3 rows of 6", weights(2, 3, 6)),
        Case("one takes nearly all", weights(6, size=20.0)),
    ]


JACOBIAN = Exercise(
    id="02.jacobian",
    points=3,
    answer="jacobian",
    cases=_jacobian_cases,
    reference=jacobian,
    properties=(
        Property.equal("equals the derivative"),
        Property.each("each row sums to 0", lambda case, got, want: (got.value.sum(dim=-1).abs() < 1e-9).all()),
        Property.each(
            "is symmetric", lambda case, got, want: torch.allclose(got.value, got.value.mT, rtol=0, atol=1e-12)
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "the diagonal alone",
            "Your diagonal, p (1 − p), is how a weight answers to its *own* score. Raising another score takes weight "
            "away too: those derivatives are not on the diagonal.",
            lambda p: torch.diag_embed(p * (1 - p)),
        ),
        Finding.like(
            "the diagonal is missing",
            "Your rows do not sum to 0, and yet adding one number to all scores changes no weight. Which term is "
            "missing where j = m?",
            lambda p: -p[..., :, None] * p[..., None, :],
        ),
        Finding.like(
            "sign turned round",
            "By your matrix a weight falls when its own score rises.",
            lambda p: p[..., :, None] * p[..., None, :] - torch.diag_embed(p),
        ),
        Finding.like(
            "1 in the place of p",
            "On the diagonal the derivative is p (1 − p): where p is near 0 it has to be near 0 as well.",
            lambda p: torch.eye(p.shape[-1], dtype=p.dtype) - p[..., :, None] * p[..., None, :],
        ),
        Finding.like(
            "one sum over all rows",
            "Right for one row. For several, each row of weights has a matrix of its own: products of weights from "
            "different rows do not occur in it.",
            lambda p: torch.diag_embed(p) - p.mT @ p if p.ndim > 1 else torch.diag(p) - torch.outer(p, p),
        ),
        Finding(
            "one row only",
            "Right for one row. p may have dimensions in front, (..., n): `torch.diag` and `torch.outer` know nothing "
            "of them. Which functions do?",
            lambda e: all(e.same(got, want) == (case.arguments["p"].ndim == 1) for case, got, want in e.rows()),
        ),
    ),
)
