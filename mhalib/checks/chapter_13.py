"""Exercises of chapter 13, image patches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mhalib import vision
from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property

# --------------------------------------------------------------------------------------------------------- 13.cut


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

# ------------------------------------------------------------------------------------------------------- 13.carry


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

# ------------------------------------------------------------------------------------------------ 13.larger_patch


def predict_larger_patch() -> dict[str, float]:
    """ViT-B for 224 × 224 pixels: what it has with patches of 32, divided by what it has with patches of 16."""
    tokens = {patch: 1 + (224 // patch) ** 2 for patch in (16, 32)}
    rest = 12 * (4 * 768 * 769 + 2 * 768 * 3072 + 768 + 3072 + 4 * 768) + 2 * 768 + 1000 * 769 + 768
    embedding = {patch: 3 * patch**2 * 768 + 768 for patch in tokens}
    whole = {patch: rest + embedding[patch] + tokens[patch] * 768 for patch in tokens}
    matrices, scores = (12 * (4 * 768**2 + 2 * 768 * 3072), 12 * 2 * 768)
    flops = {p: n * matrices + n**2 * scores + (n - 1) * 3 * p**2 * 768 + 768 * 1000 for p, n in tokens.items()}
    return {
        "patches": (tokens[32] - 1) / (tokens[16] - 1),
        "scores": tokens[32] ** 2 / tokens[16] ** 2,
        "embedding": embedding[32] / embedding[16],
        "parameters": whole[32] / whole[16],
        "flops": flops[32] / flops[16],
    }


ROOM = {
    "patches": (0.245, 0.255),
    "scores": (0.055, 0.07),
    "embedding": (3.9, 4.1),
    "parameters": (1.005, 1.05),
    "flops": (0.2, 0.3),
}


def _within(key: str, low: float, high: float):
    return lambda case, got, want: low <= got.value[key] <= high


LARGER_PATCH = Exercise(
    id="13.larger_patch",
    points=2,
    answer="predict_larger_patch",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_larger_patch,
    properties=(
        Property.each(
            "five factors above 0",
            lambda case, got, want: set(got.value) == set(ROOM) and all(x > 0 for x in got.value.values()),
            hint="Return a dict with five numbers under the names that the docstring shows.",
        ),
        *(Property.each(f"{key}: near what is counted", _within(key, *room)) for key, room in ROOM.items()),
    ),
    findings=(
        Finding.any(
            "the other way round",
            "A larger patch makes fewer of them. The factors are those of 32 over 16.",
            _within("patches", 1.5, 20),
        ),
        Finding.any(
            "halved",
            "The patch is twice as wide *and* twice as high.",
            _within("patches", 0.45, 0.55),
        ),
        Finding.any(
            "scores like patches",
            "A score belongs to a pair of tokens. If there are fewer tokens by some factor, what happens to the pairs?",
            _within("scores", 0.2, 0.3),
        ),
        Finding.any(
            "embedding unchanged",
            "The same matrix for every patch, that is right. But how many rows or columns does it need for one patch "
            "of 32 × 32 pixels?",
            _within("embedding", 0.9, 1.1),
        ),
        Finding.any(
            "embedding like patches",
            "The matrix is not there once for each patch: it is shared. Its size follows the pixels of one.",
            _within("embedding", 0.2, 0.6),
        ),
        Finding.any(
            "parameters unchanged or fewer",
            "Fewer tokens are not fewer weights: the blocks have the same ones for any number of tokens. Two things "
            "in front of them do change. Which of the two changes by more?",
            _within("parameters", 0.0, 1.005),
        ),
        Finding.any(
            "parameters like the embedding",
            "The patch embedding grows by that, and it is one matrix. What share of the model's weights is it?",
            _within("parameters", 1.05, 20),
        ),
        Finding.any(
            "all work is scores",
            "Scores fall like that. At some two hundred tokens and a width of 768, what is most of the work, and how "
            "does it depend on the number of tokens?",
            _within("flops", 0.0, 0.12),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------ 13.repair


def repaired(table: Tensor, grid: tuple[int, int], new_grid: tuple[int, int]) -> Tensor:
    """Positions (1, 1 + N, d) for another grid; the class token's row as it is."""
    return vision.interpolate_positions(table, tuple(grid), tuple(new_grid))


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, grid: tuple[int, int], new_grid: tuple[int, int], d: int) -> Case:
        table = torch.randn(1, 1 + grid[0] * grid[1], d, generator=generator, dtype=torch.float64)
        return Case(name, {"table": table, "grid": grid, "new_grid": new_grid})

    return [
        case("4 × 6 to 6 × 9", (4, 6), (6, 9), 3),
        case("3 × 5, the same grid", (3, 5), (3, 5), 4),
        case("3 × 3 to 5 × 3", (3, 3), (5, 3), 2),
        case("6 × 4 to 3 × 2, a smaller one", (6, 4), (3, 2), 3),
        case("37 × 2 to 39 × 3", (37, 2), (39, 3), 2),
    ]


def _moved(turned: bool = False, size=lambda grid, new_grid: {"size": tuple(new_grid)}, **how):
    """The program of the exercise, with one choice or more still wrong."""
    how = {"mode": "bicubic"} | how

    def mistaken(table: Tensor, grid: tuple[int, int], new_grid: tuple[int, int]) -> Tensor:
        places = table[:, 1:].unflatten(1, tuple(grid)[::-1] if turned else tuple(grid)).permute(0, 3, 1, 2)
        places = F.interpolate(places, **size(grid, new_grid), **how)
        return torch.cat([table[:, :1], places.flatten(2).mT], dim=1)

    return mistaken


def _factor(grid: tuple[int, int], new_grid: tuple[int, int]) -> dict[str, tuple[float, ...]]:
    return {"scale_factor": tuple(new / old for new, old in zip(new_grid, grid, strict=True))}


def _in_a_line(table: Tensor, grid: tuple[int, int], new_grid: tuple[int, int]) -> Tensor:
    places = F.interpolate(table[:, 1:].mT, new_grid[0] * new_grid[1], mode="linear")
    return torch.cat([table[:, :1], places.mT], dim=1)


def _places(case: Case) -> int:
    return case.arguments["new_grid"][0] * case.arguments["new_grid"][1]


REPAIR = Exercise(
    id="13.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("each place has the vector of its point in the picture"),
        Property.each("one row for each place, and one", lambda c, got, want: got.value.shape[1] == 1 + _places(c)),
        Property.each(
            "the class token's row is untouched",
            lambda c, got, want: torch.equal(got.value[:, 0], c.arguments["table"][:, 0]),
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Two things in it are wrong: one reads the table as a picture, the "
            "other says how large the new picture is.",
            _moved(turned=True, size=_factor),
        ),
        Finding.like(
            "still turned over",
            "The size is exact now. The table was written row by row: which of its axes varies faster, and do you "
            "read it so?",
            _moved(turned=True),
        ),
        Finding.like(
            "still a factor",
            "The picture is read rightly now. How many rows come out for 37 that are to be 39? A quotient, multiplied "
            "back, can fall a hair short of a whole number.",
            _moved(size=_factor),
        ),
        Finding.like(
            "the new grid turned over",
            "The old grid is read rightly, and the new one has its rows and columns exchanged: the number of places "
            "is the same, so that nothing fails.",
            _moved(size=lambda grid, new_grid: {"size": tuple(new_grid)[::-1]}),
        ),
        Finding.like(
            "corners aligned",
            "You hold the centres of the corner patches in place. The patches of another grid are of another size: "
            "what stays in place is the edge of the picture.",
            _moved(align_corners=True),
        ),
        Finding.like(
            "straight lines",
            "All the axes are right. The broken program interpolates by cubics, and so should the repaired one.",
            _moved(mode="bilinear"),
        ),
        Finding.like(
            "in a line",
            "You stretch the places as if they stood in one row: the end of each row of the grid runs into the "
            "beginning of the next.",
            _in_a_line,
        ),
        Finding.like(
            "class token lost",
            "The places are right. Where is the vector of the class token?",
            lambda table, grid, new_grid: repaired(table, grid, new_grid)[:, 1:],
        ),
    ),
)

# --------------------------------------------------------------------------------------------------- 13.factorise


def factorise(places: Tensor) -> Tensor:
    """The table (H, W, d) of the form row + column that is nearest to `places` in squares."""
    return places.mean(1, keepdim=True) + places.mean(0, keepdim=True) - places.mean((0, 1), keepdim=True)


def _factorise_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64) + 1.0

    return [
        Case("4 rows, 6 columns", {"places": draw(4, 6, 3)}),
        Case("as many rows as columns", {"places": draw(3, 3, 2)}),
        Case("row + column already", {"places": draw(5, 1, 2) + draw(1, 4, 2)}),
        Case("a single row", {"places": draw(1, 5, 2)}),
        Case("one number a place", {"places": draw(2, 5, 1)}),
    ]


def _nothing_left(case: Case, got: Outcome, want: Outcome) -> bool:
    left = case.arguments["places"] - got.value
    return left.mean(0).abs().max() < 1e-9 and left.mean(1).abs().max() < 1e-9


def _crossed(case: Case, got: Outcome, want: Outcome) -> bool:
    x = got.value
    return torch.allclose(x + x[:1, :1], x[:, :1] + x[:1])


def _kept(evidence: Evidence) -> bool:
    case = next(c for c in evidence.cases if c.name == "row + column already")
    return torch.allclose(evidence.got(case.name), case.arguments["places"])


FACTORISE = Exercise(
    id="13.factorise",
    points=3,
    answer="factorise",
    cases=_factorise_cases,
    reference=factorise,
    properties=(
        Property.equal("is the nearest table"),
        Property.each("is a vector for the row plus one for the column", _crossed),
        Property.each("what is left over has mean 0 in every row and every column", _nothing_left),
        Property("a table that is row + column already stays as it is", _kept),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "the mean twice",
            "Give your function a table whose places are all equal: what should come out, and what does?",
            lambda places: places.mean(1, keepdim=True) + places.mean(0, keepdim=True),
        ),
        Finding.like(
            "half of each",
            "The size is right on the average, and the differences between rows are half as large as they should be.",
            lambda places: (places.mean(1, keepdim=True) + places.mean(0, keepdim=True)) / 2,
        ),
        Finding.like(
            "rows alone",
            "All the places of a row are equal in your table. Where did the columns go?",
            lambda places: places.mean(1, keepdim=True).expand_as(places),
        ),
        Finding.like(
            "columns alone",
            "All the places of a column are equal in your table. Where did the rows go?",
            lambda places: places.mean(0, keepdim=True).expand_as(places),
        ),
        Finding.like(
            "first row and first column",
            "Exact where the table is a sum already. Elsewhere you believe the first row and the first column, and "
            "ask no other place. What uses all of them?",
            lambda places: places[:, :1] + places[:1] - places[:1, :1],
        ),
        Finding.like(
            "one mean for all channels",
            "Right for one number a place. Each channel is a table of its own: over which axes do you take the mean "
            "of all?",
            lambda places: places.mean(1, keepdim=True) + places.mean(0, keepdim=True) - places.mean(),
        ),
        Finding.like(
            "a product",
            "Your table is a product of a row's number and a column's. A factorised position is a sum of two vectors, "
            "whatever its name suggests.",
            lambda places: places.mean(1, keepdim=True) * places.mean(0, keepdim=True) / places.mean((0, 1)),
        ),
    ),
)

EXERCISES = (CUT, CARRY, LARGER_PATCH, REPAIR, FACTORISE)
