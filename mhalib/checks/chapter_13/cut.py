"""Exercise 13.cut: an image cut into patches."""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib import vision
from mhalib.checks import Case, Evidence, Exercise, Finding, Property


def cut(images: Tensor, height: int, width: int) -> Tensor:
    """Patches (B, N, C · height · width) of images (B, C, H, W), row by row; ValueError where they do not divide."""
    return vision.cut_patches(images, (height, width))


def _cut_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, *shape: int, height: int, width: int) -> Case:
        images = torch.randn(shape, generator=generator, dtype=torch.float64)
        return Case(name, {"images": images, "height": height, "width": width})

    return [
        case("2 images of 3 channels, patches 3 × 2", 2, 3, 6, 12, height=3, width=2),
        case("square images, square patches", 1, 1, 4, 4, height=2, width=2),
        case("the whole image is one patch", 1, 2, 5, 5, height=5, width=5),
        case("patches of one pixel", 1, 2, 2, 3, height=1, width=1),
        case("7 rows, patches of 2 rows", 1, 1, 7, 4, height=2, width=2),
        case("9 columns, patches of 4 columns", 1, 2, 4, 9, height=2, width=4),
    ]


def _cut_as(*order: int, end: int = 3, swap: bool = False):
    """Axes (B, C, rows, y, columns, x) in another order; the first of the patch's own stands at `end`."""

    def mistaken(images: Tensor, height: int, width: int) -> Tensor:
        height, width = (width, height) if swap else (height, width)
        parts = images.unflatten(3, (-1, width)).unflatten(2, (-1, height))
        return parts.permute(order).flatten(end).flatten(1, -2)

    return mistaken


def _border_dropped(images: Tensor, height: int, width: int) -> Tensor:
    rows, columns = images.shape[2] // height, images.shape[3] // width
    return cut(images[:, :, : rows * height, : columns * width], height, width)


def _other_error(evidence: Evidence) -> bool:
    right = all(evidence.same(got, want) for _, got, want in evidence.rows() if not want.error)
    return right and any(want.error and got.error and not evidence.same(got, want) for _, got, want in evidence.rows())


def _one_patch_a_pixel(evidence: Evidence) -> bool:
    """In each image every pixel is in one patch and in no other: the same numbers, in some order."""
    pairs = [(c.arguments["images"], got.value) for c, got, want in evidence.rows() if not want.error]
    return all(torch.equal(i.flatten(1).sort().values, g.flatten(1).sort().values) for i, g in pairs)


CUT = Exercise(
    id="13.cut",
    points=4,
    answer="cut",
    cases=_cut_cases,
    reference=cut,
    properties=(
        Property.equal("each patch is the piece of its image, in the order that is asked for"),
        Property("every pixel is in exactly one patch", _one_patch_a_pixel),
        Property.refuses("refuses patches that do not divide the image"),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "reshape alone",
            "The shape is right, and nothing was moved: your rows are pieces of the memory, which are stripes of one "
            "channel. Change one pixel and see which row changes.",
            lambda images, height, width: images.reshape(len(images), -1, images.shape[1] * height * width),
        ),
        Finding.like(
            "down the columns",
            "Each patch is right, and they stand in another order: yours go down the first column of the grid. Which "
            "of the two axes of the grid has to vary faster?",
            _cut_as(0, 4, 2, 1, 3, 5),
        ),
        Finding.like(
            "turned inside",
            "The patches stand in the right order, and inside of each the pixels go down its columns. Draw one patch "
            "as a picture: it is mirrored at its diagonal.",
            _cut_as(0, 2, 4, 1, 5, 3),
        ),
        Finding.like(
            "channels last",
            "The right numbers in each patch, pixel by pixel. Here they are asked for channel by channel, as the "
            "weight of a convolution has them.",
            _cut_as(0, 2, 4, 3, 5, 1),
        ),
        Finding.like(
            "height and width exchanged",
            "Your patches lie on their side. Which of the two numbers belongs to axis 2 of the images?",
            _cut_as(0, 2, 4, 1, 3, 5, swap=True),
        ),
        Finding.like(
            "a patch for each channel",
            "You have C times too many patches, each of one channel. A token has to see all the colours of its piece.",
            _cut_as(0, 1, 2, 4, 3, 5, end=4),
        ),
        Finding.like(
            "numbers before patches",
            "All is there, as (B, numbers, patches). For attention the tokens come first, the numbers of each last.",
            lambda images, height, width: cut(images, height, width).mT,
        ),
        Finding.like(
            "border dropped",
            "Right where the patches divide the image. Where they do not, you drop the rest in silence, as a strided "
            "convolution does. What does the exercise ask for?",
            _border_dropped,
        ),
        Finding(
            "another error",
            "All the values are right. Where the patches do not divide the image the program stops by accident, deep "
            "in a reshape: look before you cut, and raise the kind of error that is asked for.",
            _other_error,
        ),
    ),
)
