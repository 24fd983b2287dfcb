"""Exercise 15.refine: the second half of CBAM."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from mhalib import gates
from mhalib.checks import Case, Exercise, Finding, Outcome, Property


def refine(x: Tensor, channel: Tensor, kernel: Tensor) -> Tensor:
    """CBAM's second half (B, C, H, W): x (B, C, H, W) times its channel gates (B, C), then times its position gates."""
    spatial = gates.SpatialAttention(kernel.shape[-1])
    return functional_call(spatial, {"conv.weight": kernel}, (x * channel[:, :, None, None],))


def _refine_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, *shape: int, k: int, gradients: tuple[str, ...] = ()) -> Case:
        shapes = {"x": shape, "channel": shape[:2], "kernel": (1, 2, k, k)}
        drawn = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
        return Case(name, {**drawn, "channel": drawn["channel"].sigmoid()}, gradients)

    return [
        case("2 maps of 3 channels, kernel 3", 2, 3, 4, 6, k=3, gradients=("x", "channel", "kernel")),
        case("kernel 7, larger than the map", 1, 5, 4, 5, k=7),
        case("as many channels as rows and columns", 3, 4, 4, 4, k=3),
        case("kernel 1, two channels", 2, 2, 3, 5, k=1),
        case("a single channel", 2, 1, 3, 4, k=3),
    ]


def _mean_and_max(x: Tensor) -> list[Tensor]:
    return [x.mean(1, keepdim=True), x.amax(1, keepdim=True)]


def _position_gate(x: Tensor, kernel: Tensor, maps=_mean_and_max, outer=torch.sigmoid) -> Tensor:
    return outer(F.conv2d(torch.cat(maps(x), dim=1), kernel, padding=kernel.shape[-1] // 2))


def _refine_with(**how):
    """Channel gates, then position gates with one thing different."""

    def mistaken(x: Tensor, channel: Tensor, kernel: Tensor) -> Tensor:
        refined = x * channel[:, :, None, None]
        return refined * _position_gate(refined, kernel, **how)

    return mistaken


def _side_by_side(x: Tensor, channel: Tensor, kernel: Tensor) -> Tensor:
    return x * channel[:, :, None, None] * _position_gate(x, kernel)


def _channels_lost(x: Tensor, channel: Tensor, kernel: Tensor) -> Tensor:
    return x * _position_gate(x * channel[:, :, None, None], kernel)


def _softmax_over_places(u: Tensor) -> Tensor:
    return u.flatten(2).softmax(dim=-1).view_as(u)


def _one_a_place(case: Case, got: Outcome, want: Outcome) -> bool:
    gate = got.value / (case.arguments["x"] * case.arguments["channel"][:, :, None, None])
    return torch.allclose(gate, gate[:, :1].expand_as(gate)) and (gate > 0).all() and (gate < 1).all()


REFINE = Exercise(
    id="15.refine",
    points=4,
    answer="refine",
    cases=_refine_cases,
    reference=refine,
    properties=(
        Property.equal("equals the equations"),
        Property.each(
            "beside the channel gates, one number between 0 and 1 a position, the same for all channels", _one_a_place
        ),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "side by side",
            "Your position gates look at x. By the equations they look at what the channel gates have left of it.",
            _side_by_side,
        ),
        Finding.like(
            "channel gates lost",
            "The position gates are right. They multiply a map that the channel gates have not touched: which one is "
            "it in the equations?",
            _channels_lost,
        ),
        Finding.like(
            "maximum first",
            "The kernel has a slice for each of the two maps, in this order: mean, maximum.",
            _refine_with(maps=lambda x: _mean_and_max(x)[::-1]),
        ),
        Finding.like(
            "the mean twice",
            "Your second map is the first one again. For a single channel that is right, because mean and maximum are "
            "the same there.",
            _refine_with(maps=lambda x: [x.mean(1, keepdim=True)] * 2),
        ),
        Finding.like(
            "no sigmoid",
            "Some of your position gates are negative, or above 1: those turn features around. What is missing?",
            _refine_with(outer=lambda u: u),
        ),
        Finding.like(
            "softmax over the positions",
            "Your position gates of an image sum to 1: on a large map nearly everything is shut. In a gate each "
            "position is judged on its own.",
            _refine_with(outer=_softmax_over_places),
        ),
        Finding.like(
            "pooled over the positions",
            "You pool each channel over the image. A position gate needs one number for each *position*: over which "
            "axis does it pool?",
            _refine_with(maps=lambda x: [p.mean(1, keepdim=True).expand_as(x[:, :1]) for p in _pooled(x)]),
        ),
    ),
)


def _pooled(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.mean((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
