# finding: channel gates lost
# Who multiplies the map that entered.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    refined = x * channel[:, :, None, None]
    maps = torch.cat([refined.mean(1, keepdim=True), refined.amax(1, keepdim=True)], dim=1)
    gate = torch.sigmoid(F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2))
    return x * gate
