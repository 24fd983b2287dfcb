"""Exercise 13.carry: a matrix on patches as a convolution."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mhalib.checks import Case, Exercise, Finding, Outcome, Property


def as_convolution(matrix: Tensor, channels: int, height: int, width: int) -> Tensor:
    """Weight (d, C, height, width) of the convolution that does what `matrix` does to patches (y, x, channel)."""
    return matrix.unflatten(1, (height, width, channels)).permute(0, 3, 1, 2)


def _carry_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, d: int, height: int, width: int, channels: int) -> Case:
        matrix = torch.randn(d, height * width * channels, generator=generator, dtype=torch.float64)
        return Case(name, {"matrix": matrix, "channels": channels, "height": height, "width": width})

    return [
        case("3 channels, patches 2 × 5, 4 outputs", 4, 2, 5, 3),
        case("2 channels, square patches", 3, 2, 2, 2),
        case("as many channels as rows", 5, 3, 4, 3),
        case("one channel", 2, 3, 2, 1),
        case("patches of one pixel", 3, 1, 1, 4),
    ]


def _same_tokens(case: Case, got: Outcome, want: Outcome) -> bool:
    """The convolution, on two patches side by side, against the matrix on their pixels."""
    matrix, channels, height, width = (case.arguments[n] for n in ("matrix", "channels", "height", "width"))
    numbers = torch.arange(2 * channels * height * width, dtype=torch.float64).cos()
    image = numbers.reshape(channels, height, 2 * width)
    tokens = F.conv2d(image[None], got.value, stride=(height, width))[0].flatten(1).mT
    pixels = image.unflatten(2, (2, width)).permute(2, 1, 3, 0).flatten(1)  # (patch, y · x · channel)
    return torch.allclose(tokens, pixels @ matrix.mT)


CARRY = Exercise(
    id="13.carry",
    points=3,
    answer="as_convolution",
    cases=_carry_cases,
    reference=as_convolution,
    properties=(
        Property.equal("each weight is where it belongs"),
        Property.each("the convolution makes the same tokens as the matrix", _same_tokens),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "reshape alone",
            "The shape is right, and nothing was moved: the matrix has the channels last, the convolution has them "
            "before the rows. Right for one channel and for one pixel, and for nothing else.",
            lambda matrix, channels, height, width: matrix.reshape(-1, channels, height, width),
        ),
        Finding.like(
            "channels still last",
            "The axes have their names now. A convolution wants them in another order: outputs, channels, rows, "
            "columns.",
            lambda matrix, channels, height, width: matrix.reshape(-1, height, width, channels),
        ),
        Finding.like(
            "columns before rows",
            "The channels are in their place. Is the last axis of a convolution's weight the row or the column of a "
            "pixel?",
            lambda matrix, channels, height, width: matrix.reshape(-1, height, width, channels).permute(0, 3, 2, 1),
        ),
        Finding.like(
            "read by columns",
            "You read the pixels of the matrix down the columns of the patch: right for square ones by shape only. "
            "Which of y and x varies faster in the layout that is given?",
            lambda matrix, channels, height, width: matrix.reshape(-1, width, height, channels).permute(0, 3, 2, 1),
        ),
        Finding.like(
            "kernel turned round",
            "The convolution of mathematics turns its kernel round. Torch's does not: it lays the weight on the "
            "pixels as it is.",
            lambda matrix, channels, height, width: as_convolution(matrix, channels, height, width).flip(2, 3),
        ),
        Finding.like(
            "outputs last",
            "This is the layout (rows, columns, channels, outputs) of another framework. Torch puts the outputs first.",
            lambda matrix, channels, height, width: as_convolution(matrix, channels, height, width).permute(2, 3, 1, 0),
        ),
    ),
)
