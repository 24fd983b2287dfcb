# %% right: loop
# A slice for each patch.
import torch


def cut(images, height, width):
    down, across = images.shape[2:]
    if down % height or across % width:
        raise ValueError(f"{down} × {across} pixels cannot be cut into {height} × {width}")
    corners = [(top, left) for top in range(0, down, height) for left in range(0, across, width)]
    return torch.stack([images[:, :, y : y + height, x : x + width].flatten(1) for y, x in corners], dim=1)


# %% right: unfold
# Torch's function, with the axes put right.
import torch.nn.functional as F


def cut(images, height, width):
    if images.shape[2] % height or images.shape[3] % width:
        raise ValueError("the patches do not divide the image")
    return F.unfold(images, (height, width), stride=(height, width)).mT


# %% right: windows
# Windows from Tensor.unfold, one axis at a time.
def cut(images, height, width):
    if images.shape[2] % height or images.shape[3] % width:
        raise ValueError("the patches do not divide the image")
    windows = images.unfold(2, height, height).unfold(3, width, width)  # (B, C, rows, columns, height, width)
    return windows.movedim(1, 3).flatten(3).flatten(1, 2)


# %% wrong: reshape
# finding: reshape alone
# Who counts the numbers, sees that they agree, and lets reshape do it.
def cut(images, height, width):
    rows, columns = images.shape[2] // height, images.shape[3] // width
    if (rows * height, columns * width) != tuple(images.shape[2:]):
        raise ValueError("the patches do not divide the image")
    return images.reshape(len(images), rows * columns, -1)


# %% wrong: down columns
# finding: down the columns
# Who thinks of x before y, and so numbers the grid along x last.
def cut(images, height, width):
    rows, columns = images.shape[2] // height, images.shape[3] // width
    if (rows * height, columns * width) != tuple(images.shape[2:]):
        raise ValueError("the patches do not divide the image")
    parts = images.unflatten(3, (columns, width)).unflatten(2, (rows, height))
    return parts.permute(0, 4, 2, 1, 3, 5).flatten(3).flatten(1, 2)


# %% wrong: turned inside
# finding: turned inside
# Who keeps the grid straight and then permutes the two small axes by feel.
def cut(images, height, width):
    rows, columns = images.shape[2] // height, images.shape[3] // width
    if (rows * height, columns * width) != tuple(images.shape[2:]):
        raise ValueError("the patches do not divide the image")
    parts = images.unflatten(3, (columns, width)).unflatten(2, (rows, height))
    return parts.permute(0, 2, 4, 1, 5, 3).flatten(3).flatten(1, 2)


# %% wrong: channels last
# finding: channels last
# Who comes from images as files have them, pixel by pixel.
def cut(images, height, width):
    rows, columns = images.shape[2] // height, images.shape[3] // width
    if (rows * height, columns * width) != tuple(images.shape[2:]):
        raise ValueError("the patches do not divide the image")
    parts = images.unflatten(3, (columns, width)).unflatten(2, (rows, height))
    return parts.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


# %% wrong: sides
# finding: height and width exchanged
# Who reads sizes as width by height, as cameras give them.
def cut(images, height, width):
    height, width = width, height
    rows, columns = images.shape[2] // height, images.shape[3] // width
    if (rows * height, columns * width) != tuple(images.shape[2:]):
        raise ValueError("the patches do not divide the image")
    parts = images.unflatten(3, (columns, width)).unflatten(2, (rows, height))
    return parts.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


# %% wrong: channel patches
# finding: a patch for each channel
# Who cuts each channel and leaves the channels where they were.
def cut(images, height, width):
    rows, columns = images.shape[2] // height, images.shape[3] // width
    if (rows * height, columns * width) != tuple(images.shape[2:]):
        raise ValueError("the patches do not divide the image")
    parts = images.unflatten(3, (columns, width)).unflatten(2, (rows, height))
    return parts.permute(0, 1, 2, 4, 3, 5).flatten(4).flatten(1, 3)


# %% wrong: unfold
# finding: numbers before patches
# Who finds the right function of torch and does not look at the shape that it returns.
import torch.nn.functional as F


def cut(images, height, width):
    if images.shape[2] % height or images.shape[3] % width:
        raise ValueError("the patches do not divide the image")
    return F.unfold(images, (height, width), stride=(height, width))


# %% wrong: border
# finding: border dropped
# Who takes a whole-number division for a division.
import torch.nn.functional as F


def cut(images, height, width):
    return F.unfold(images, (height, width), stride=(height, width)).mT


# %% wrong: accident
# finding: another error
# Who lets the reshape complain.
def cut(images, height, width):
    batch, channels, rows, columns = images.shape
    parts = images.reshape(batch, channels, rows // height, height, columns // width, width)
    return parts.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * height * width)
