"""Exercise 15.repair: a program of CBAM's channel attention, to be repaired."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call

from mhalib import gates
from mhalib.checks import Exercise, Finding, Property
from mhalib.checks.chapter_15._shared import map_cases, shrinks


def repaired(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """CBAM's channel attention (B, C, H, W) of x (B, C, H, W), with w1 (C / r, C) and w2 (C, C / r)."""
    gate = gates.ChannelAttention(w1.shape[1], w1.shape[1] // w1.shape[0])
    return functional_call(gate, {"down.weight": w1, "up.weight": w2}, (x,))


def _softmax(u: Tensor) -> Tensor:
    return u.softmax(dim=1)


def _repaired_with(squeezes=("mean", "amax"), outer=torch.sigmoid):
    """The program of the exercise, with one choice or more still wrong."""

    def mistaken(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        both = [torch.relu(getattr(x, name)((2, 3)) @ w1.mT) @ w2.mT for name in squeezes]
        return x * outer(both[0] + both[1])[:, :, None, None]

    return mistaken


def _two_sigmoids(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    both = [torch.relu(pooled @ w1.mT) @ w2.mT for pooled in (x.mean((2, 3)), x.amax((2, 3)))]
    return x * (both[0].sigmoid() + both[1].sigmoid())[:, :, None, None]


def _added_before(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    pooled = x.mean((2, 3)) + x.amax((2, 3))
    return x * torch.sigmoid(torch.relu(pooled @ w1.mT) @ w2.mT)[:, :, None, None]


REPAIR = Exercise(
    id="15.repair",
    points=3,
    answer="repaired",
    cases=map_cases,
    reference=repaired,
    properties=(
        Property.equal("equals the equation"),
        Property.each("only shrinks: |y| is at most |x|, with the same sign", shrinks),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Two lines of it are wrong: one decides what the gates look at, "
            "the other whether they compete.",
            _repaired_with(("mean", "mean"), _softmax),
        ),
        Finding.like(
            "still a softmax",
            "The maximum is used now. Sum your gates over the channels of one image: should that number be fixed?",
            _repaired_with(outer=_softmax),
        ),
        Finding.like(
            "still the mean twice",
            "The gates are independent now. Change the largest number of a channel and keep its mean: do they see it?",
            _repaired_with(("mean", "mean")),
        ),
        Finding.like(
            "softmax made larger",
            "Multiplied by their number your gates are 1 on the average, and they still compete: raise one channel, "
            "and the others fall. Some are above 1, too.",
            _repaired_with(outer=lambda u: u.softmax(dim=1) * u.shape[1]),
        ),
        Finding.like(
            "the maximum twice",
            "Now it is the mean that is computed and never used.",
            _repaired_with(("amax", "amax")),
        ),
        Finding.like(
            "two sigmoids",
            "Your gates go up to 2. Where does the sum stand in the equation, before the sigmoid or behind it?",
            _two_sigmoids,
        ),
        Finding.like(
            "added before the matrices",
            "Mean and maximum go through the two matrices one by one. Between the matrices is a ReLU: does a sum pass "
            "through it unchanged?",
            _added_before,
        ),
    ),
)
