"""Small data that comes with the installed libraries, as tensors: digits, canvases with two digits, photographs.

Nothing is downloaded, and the same call gives the same tensors on every machine. scikit-learn and scikit-image are
imported by the functions that need them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mhalib.arguments import check_tensors, pair, require, whole_numbers

#: The photographs that stand inside scikit-image's wheel, (height, width, channels).
PHOTOGRAPHS = {
    "astronaut": (512, 512, 3),
    "camera": (512, 512, 1),
    "chelsea": (300, 451, 3),  # a cat
    "coffee": (400, 600, 3),
    "coins": (303, 384, 1),
    "moon": (512, 512, 1),
    "rocket": (427, 640, 3),
}


class Digits(NamedTuple):
    """Handwritten digits, split once and for all: images (N, 1, 8, 8) from 0 to 1, labels (N,) int64 from 0 to 9."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


class TwoDigits(NamedTuple):
    """Canvases with two digits of different classes, and where each of them stands."""

    images: Tensor  #: (N, 1, H, W), from 0 to 1
    labels: Tensor  #: (N, 2) int64: the classes of digit 0 and digit 1
    places: Tensor  #: (N, 2, 2) int64: top row and left column of each digit
    digit_size: tuple[int, int]  #: height and width of a digit

    @property
    def targets(self) -> Tensor:
        """(N, 10) float: 1 for the two classes on the canvas, 0 for the rest, as BCE-with-logits wants them."""
        return torch.zeros(len(self.labels), 10, device=self.images.device).scatter_(1, self.labels, 1.0)

    @property
    def regions(self) -> Tensor:
        """(N, 2, H, W) bool: True in the rectangle of digit 0 and of digit 1; the two never overlap."""
        height, width = self.images.shape[-2:]
        top, left = (self.places[..., axis, None, None] for axis in (0, 1))
        row = torch.arange(height, device=self.places.device)[:, None]
        column = torch.arange(width, device=self.places.device)
        inside_rows = (row >= top) & (row < top + self.digit_size[0])
        return inside_rows & (column >= left) & (column < left + self.digit_size[1])


def digits(test_size: int = 360) -> Digits:
    """scikit-learn's 1797 handwritten digits, 8 × 8 pixels, always split in the same way.

    Args:
        test_size: how many to hold out, 10 … 1787; each class keeps its share.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI repository, 1998 (its test set).
    """
    datasets = require("sklearn.datasets", by="mhalib.data.digits")
    selection = require("sklearn.model_selection", by="mhalib.data.digits")
    raw = datasets.load_digits()
    total = len(raw.target)
    (test_size,) = whole_numbers(test_size=test_size)
    if not 10 <= test_size <= total - 10:
        raise ValueError(f"test_size: got {test_size}; accepted is 10 … {total - 10}, one of each class on both sides")
    images = torch.tensor(raw.images / 16, dtype=torch.float32)[:, None]
    labels = torch.tensor(raw.target, dtype=torch.int64)
    train, test = selection.train_test_split(range(total), test_size=test_size, random_state=0, stratify=raw.target)
    return Digits(images[train], labels[train], images[test], labels[test])


def two_digits(
    images: Tensor, labels: Tensor, number: int, *, canvas: tuple[int, int] = (8, 16), step: int = 8, seed: int = 0
) -> TwoDigits:
    """Canvases of two digits of different classes that do not overlap, drawn from the images given.

    Both digits are drawn at random, and so is the pair of places, among all pairs that do not overlap; digit 0 stands
    as often on the right as on the left. Draw canvases for training and for testing from images that are apart.

    Args:
        images, labels: (N, 1, h, w) and (N,) int64 from 0 to 9, for example of `digits()`; at least two classes.
        number: canvases wanted.
        canvas: height and width in pixels.
        step: digits stand at multiples of this many pixels.
        seed: of the draw. It is made on the CPU, so that every device gets the same canvases.
    """
    _check_images(images, labels)
    number, step = whole_numbers(number=number, step=step)
    (seed,) = whole_numbers(minimum=0, seed=seed)
    height, width = pair("canvas", canvas)
    generator = torch.Generator().manual_seed(seed)
    first, second = _different_classes(labels.cpu(), number, generator)
    size = (images.shape[-2], images.shape[-1])
    pairs = _free_pairs((height, width), size, step)
    places = pairs[torch.randint(len(pairs), (number,), generator=generator)]
    made = images.new_zeros(number, 1, height, width)
    for row in range(number):
        for index, (top, left) in zip((first[row], second[row]), places[row].tolist(), strict=True):
            made[row, :, top : top + size[0], left : left + size[1]] = images[index]
    chosen = torch.stack([labels.cpu()[first], labels.cpu()[second]], dim=1)
    return TwoDigits(made, chosen.to(images.device), places.to(images.device), size)


def photograph(name: str, size: int | tuple[int, int] | None = None) -> Tensor:
    """One of scikit-image's photographs as (C, H, W) float32 from 0 to 1; C is 3, or 1 for those in grey.

    Args:
        name: one of `PHOTOGRAPHS`.
        size: (height, width), or one number for a square. The largest centred part of that shape is cut out, then
            resized with antialiasing: nothing is stretched. None is the photograph as it is.
    """
    if name not in PHOTOGRAPHS:
        raise ValueError(f"name: got {name!r}; accepted are {', '.join(map(repr, PHOTOGRAPHS))}")
    raw = getattr(require("skimage.data", by="mhalib.data.photograph"), name)()
    image = torch.tensor(raw, dtype=torch.float32).reshape(*PHOTOGRAPHS[name]).permute(2, 0, 1).contiguous() / 255
    if size is None:
        return image
    height, width = pair("size", size)
    image = _centre_part(image, height / width)
    return F.interpolate(image[None], (height, width), mode="bilinear", antialias=True, align_corners=False)[0]


def _check_images(images: Tensor, labels: Tensor) -> None:
    check_tensors(images=images, labels=labels)
    if images.dim() != 4 or images.shape[1] != 1 or not images.is_floating_point():
        raise ValueError(f"images: got {images.dtype} {tuple(images.shape)}; accepted are floats (N, 1, h, w)")
    if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"labels: got {labels.dtype} {tuple(labels.shape)} for {len(images)} images; accepted is int64 (N,)"
        )
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) <= 9:
        raise ValueError(f"labels: got {int(labels.min())} … {int(labels.max())}; accepted is 0 … 9")
    if len(labels.unique()) < 2:
        raise ValueError(f"labels: got {len(labels.unique())} class; accepted are two or more, to be put side by side")


def _different_classes(labels: Tensor, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two indices (number,) into `labels`: the first any image, the second any image of another class."""
    first = torch.randint(len(labels), (number,), generator=generator)
    other = labels[first, None] != labels  # (number, N): the images that may stand beside it
    drawn = torch.randint(2**31, (number,), generator=generator) % other.sum(1)
    second = (other.cumsum(1) > drawn[:, None]).int().argmax(1)  # whole numbers: the same on every processor
    return first, second


def _free_pairs(canvas: tuple[int, int], size: tuple[int, int], step: int) -> Tensor:
    """(P, 2, 2): every ordered pair of places (top, left) on the grid of `step` where two digits do not overlap."""
    axes = [torch.arange(0, outer - inner + 1, step) for outer, inner in zip(canvas, size, strict=True)]
    places = torch.cartesian_prod(*axes) if all(len(axis) for axis in axes) else torch.zeros(0, 2, dtype=torch.int64)
    apart = ((places[:, None] - places).abs() >= torch.tensor(size)).any(-1)
    pairs = torch.stack([places[index] for index in apart.nonzero(as_tuple=True)], dim=1)
    if not len(pairs):
        raise ValueError(
            f"canvas: got {canvas} with step={step}; accepted is one where two digits of {size} fit without overlap, "
            f"for example {(size[0], 2 * size[1])} with step={size[1]}"
        )
    return pairs


def _centre_part(image: Tensor, ratio: float) -> Tensor:
    """The largest centred part of (C, H, W) whose height is `ratio` times its width, to the nearest pixel."""
    height, width = image.shape[-2:]
    new_height = min(height, max(1, math.floor(width * ratio + 0.5)))
    new_width = min(width, max(1, math.floor(height / ratio + 0.5)))
    top, left = (height - new_height) // 2, (width - new_width) // 2
    return image[:, top : top + new_height, left : left + new_width]
