# %% right: loop
# Number by number.
import torch


def as_convolution(matrix, channels, height, width):
    weight = torch.empty(len(matrix), channels, height, width, dtype=matrix.dtype)
    for y in range(height):
        for x in range(width):
            for c in range(channels):
                weight[:, c, y, x] = matrix[:, (y * width + x) * channels + c]
    return weight


# %% right: strided
# Each channel is every C-th column.
import torch


def as_convolution(matrix, channels, height, width):
    per_channel = [matrix[:, c::channels].reshape(-1, height, width) for c in range(channels)]
    return torch.stack(per_channel, dim=1)


# %% wrong: reshape
# finding: reshape alone
# Who takes a weight of the right size for the right weight.
def as_convolution(matrix, channels, height, width):
    return matrix.reshape(-1, channels, height, width)


# %% wrong: channels last
# finding: channels still last
# Who names the axes of the matrix and stops there.
def as_convolution(matrix, channels, height, width):
    return matrix.reshape(-1, height, width, channels)


# %% wrong: columns first
# finding: columns before rows
# Who turns round all the axes but the first.
def as_convolution(matrix, channels, height, width):
    return matrix.reshape(-1, height, width, channels).permute(0, 3, 2, 1)


# %% wrong: by columns
# finding: read by columns
# Who thinks that x comes before y in a list of pixels.
def as_convolution(matrix, channels, height, width):
    return matrix.reshape(-1, width, height, channels).permute(0, 3, 2, 1)


# %% wrong: turned round
# finding: kernel turned round
# Who remembers from signal processing that a convolution flips its kernel.
def as_convolution(matrix, channels, height, width):
    weight = matrix.reshape(-1, height, width, channels).movedim(-1, 1)
    return weight.flip(-1, -2)


# %% wrong: outputs last
# finding: outputs last
# Who learned the layout of another framework.
def as_convolution(matrix, channels, height, width):
    return matrix.reshape(-1, height, width, channels).permute(1, 2, 3, 0)
