# Each channel is every C-th column.
import torch


def as_convolution(matrix, channels, height, width):
    per_channel = [matrix[:, c::channels].reshape(-1, height, width) for c in range(channels)]
    return torch.stack(per_channel, dim=1)
