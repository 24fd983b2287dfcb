"""Exercise 15.excite: squeeze-and-excitation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call

from mhalib import gates
from mhalib.checks import Case, Exercise, Finding, Outcome, Property
from mhalib.checks.chapter_15._shared import map_cases, shrinks


def excite(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """Squeeze-and-excitation (B, C, H, W) of x (B, C, H, W), with w1 (C / r, C) and w2 (C, C / r)."""
    gate = gates.SqueezeExcitation(w1.shape[1], w1.shape[1] // w1.shape[0])
    return functional_call(gate, {"down.weight": w1, "up.weight": w2}, (x,))


def _mean(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def _excite_with(squeeze=_mean, inner=torch.relu, outer=torch.sigmoid, alone: bool = False):
    """Squeeze-and-excitation with one thing different."""

    def mistaken(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
        gate = outer(inner(squeeze(x) @ w1.mT) @ w2.mT)
        gate = gate[:, :, None, None].expand(len(x), -1, 1, 1)
        return gate if alone else gate * x

    return mistaken


def _each_pixel(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    return x * torch.sigmoid(torch.relu(x.movedim(1, -1) @ w1.mT) @ w2.mT).movedim(-1, 1)


def _one_a_channel(case: Case, got: Outcome, want: Outcome) -> bool:
    gate = got.value / case.arguments["x"]
    return torch.allclose(gate, gate[:, :, :1, :1].expand_as(gate))


EXCITE = Exercise(
    id="15.excite",
    points=3,
    answer="excite",
    cases=map_cases,
    reference=excite,
    properties=(
        Property.equal("equals the equations"),
        Property.each("only shrinks: |y| is at most |x|, with the same sign", shrinks),
        Property.each("one number for each channel, the same at every position", _one_a_channel),
        Property(
            "an image alone gets the same as in company",
            lambda e: torch.allclose(e.got("2 maps of 6 channels")[1:], e.got("the second of them alone")),
        ),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "no squeeze",
            "Each position makes a gate of its own. Which step is there so that a gate sees the whole image?",
            _each_pixel,
        ),
        Finding.like(
            "softmax",
            "Your gates of one image sum to 1, so that most channels are nearly shut. Do the equations make channels "
            "compete?",
            _excite_with(outer=lambda u: u.softmax(dim=-1)),
        ),
        Finding.like(
            "no sigmoid",
            "Some of your gates are negative, or above 1. What brings any number between 0 and 1?",
            _excite_with(outer=lambda u: u),
        ),
        Finding.like(
            "no relu",
            "Two matrices with nothing between them are one matrix. What stands between W₁ and W₂?",
            _excite_with(inner=lambda u: u),
        ),
        Finding.like(
            "a sum in the place of a mean",
            "Your gates depend on how large the image is: a 1 × 1 map is right, and a larger one is not.",
            _excite_with(squeeze=lambda x: x.sum((2, 3))),
        ),
        Finding.like(
            "the maximum",
            "You squeeze by the largest number of a channel. That is one half of CBAM; here the equation has another.",
            _excite_with(squeeze=lambda x: x.amax((2, 3))),
        ),
        Finding.like(
            "mean over the batch",
            "An image gets another answer in company than alone. Over which axes do you take the mean?",
            _excite_with(squeeze=lambda x: x.mean((0, 2, 3), keepdim=True)[:, :, 0, 0]),
        ),
        Finding.like(
            "the gate alone",
            "These are the gates, and they are right. Asked for is the feature map that they leave.",
            _excite_with(alone=True),
        ),
    ),
)
