# A convolution for each map, and their sum.
import torch.nn.functional as F


def refine(x, channel, kernel):
    x = channel.view(*channel.shape, 1, 1) * x
    pad = kernel.shape[2] // 2
    mean = F.conv2d(x.mean(dim=1, keepdim=True), kernel[:, :1], padding=pad)
    maximum = F.conv2d(x.max(dim=1, keepdim=True).values, kernel[:, 1:], padding=pad)
    return x * (mean + maximum).sigmoid()
