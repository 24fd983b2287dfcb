"""Exercise 15.matched: a gated network and the plain one of nearly the same size."""

from __future__ import annotations

import torch

from mhalib.checks import Case, Exercise, Finding, Outcome, Property


def _plain_weights(width: int, in_channels: int, num_classes: int, norms: int = 2) -> int:
    """Two blocks of 3 × 3 convolution and batch norm, and a linear head with biases."""
    return 9 * in_channels * width + 9 * width**2 + norms * 2 * width + width * num_classes + num_classes


def matched(channels: int, reduction: int, in_channels: int, num_classes: int) -> dict[str, int]:
    """Weights of a gated network, and the width and the weights of the plain one that is nearest to it."""
    return _matched_with()(channels, reduction, in_channels, num_classes)


def _nearest(total: int, channels: int, weights) -> int:
    return min(range(channels, 2 * channels + 1), key=lambda width: abs(weights(width) - total))


def _rounded_down(total: int, channels: int, weights) -> int:
    return max(width for width in range(channels, 2 * channels + 1) if weights(width) <= total)


def _in_proportion(total: int, channels: int, weights) -> int:
    return round(channels * total / weights(channels))


def _matched_with(gate=lambda c, r: 2 * c * c // r, norms: int = 2, choose=_nearest):
    """Counting with one thing different."""

    def counted(channels: int, reduction: int, in_channels: int, num_classes: int) -> dict[str, int]:
        def weights(width: int) -> int:
            return _plain_weights(width, in_channels, num_classes, norms)

        total = weights(channels) + 2 * gate(channels, reduction)
        width = choose(total, channels, weights)
        return {"gated": total, "width": width, "plain": weights(width)}

    return counted


def _matched_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)
    drawn = 16 * int(torch.randint(2, 9, (1,), generator=generator))
    rows = [(64, 4, 3, 10), (32, 2, 1, 10), (16, 1, 3, 5), (128, 16, 3, 100), (24, 3, 2, 7), (drawn, 8, 3, 12)]
    names = ("channels", "reduction", "in_channels", "num_classes")
    return [Case(f"{row[0]} channels, r = {row[1]}", dict(zip(names, row, strict=True))) for row in rows]


def _is_nearest(case: Case, got: Outcome, want: Outcome) -> bool:
    a = case.arguments
    near = [_plain_weights(got.value["width"] + step, a["in_channels"], a["num_classes"]) for step in (-1, 0, 1)]
    gaps = [abs(weights - want.value["gated"]) for weights in near]
    return gaps[1] == min(gaps)


MATCHED = Exercise(
    id="15.matched",
    points=3,
    answer="matched",
    cases=_matched_cases,
    reference=matched,
    properties=(
        Property.each("gated: the weights are counted", lambda c, got, want: got.value["gated"] == want.value["gated"]),
        Property.each("width: no other is nearer", _is_nearest),
        Property.equal("all three numbers are right"),
    ),
    findings=(
        Finding.like(
            "half the gates' weights",
            "Half of the weights of the gates are missing. How many gates are there, and how many matrices has each?",
            _matched_with(gate=lambda c, r: c * c // r),
        ),
        Finding.like(
            "biases in the gate",
            "You give the gate's two matrices biases. The network of the exercise has none there.",
            _matched_with(gate=lambda c, r: 2 * c * c // r + c // r + c),
        ),
        Finding.like(
            "no reduction",
            "Between the two matrices of your gates stand C units. What is it that the reduction reduces?",
            _matched_with(gate=lambda c, r: 2 * c * c),
        ),
        Finding.like(
            "norms forgotten",
            "A batch norm has two weights a channel. They are few; a count is right or it is not.",
            _matched_with(norms=0),
        ),
        Finding.like(
            "rounded down",
            "Your plain network never has more weights than the gated one. The nearest may have.",
            _matched_with(choose=_rounded_down),
        ),
        Finding.like(
            "in proportion",
            "You widen by the factor by which the weights grow. How do the weights of a convolution from C to C "
            "channels depend on C?",
            _matched_with(choose=_in_proportion),
        ),
        Finding.like(
            "no wider",
            "Your plain network is as wide as the gated one, so that it has fewer weights: that is the comparison of "
            "many papers, and what this exercise is there to repair.",
            _matched_with(choose=lambda total, channels, weights: channels),
        ),
    ),
)
