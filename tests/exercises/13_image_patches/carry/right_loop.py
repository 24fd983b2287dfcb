# Number by number.
import torch


def as_convolution(matrix, channels, height, width):
    weight = torch.empty(len(matrix), channels, height, width, dtype=matrix.dtype)
    for y in range(height):
        for x in range(width):
            for c in range(channels):
                weight[:, c, y, x] = matrix[:, (y * width + x) * channels + c]
    return weight
