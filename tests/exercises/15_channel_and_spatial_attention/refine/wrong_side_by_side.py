# finding: side by side
# Who reads the two gates as two answers about the same map.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    refined = x * channel[:, :, None, None]
    maps = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
    gate = torch.sigmoid(F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2))
    return refined * gate
