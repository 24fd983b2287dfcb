# The equations, line by line.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    x = x * channel[:, :, None, None]
    maps = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
    gate = torch.sigmoid(F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2))
    return x * gate
