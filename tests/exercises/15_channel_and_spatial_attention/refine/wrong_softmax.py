# finding: softmax over the positions
# Who takes spatial attention for attention over the positions.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    x = x * channel[:, :, None, None]
    maps = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
    gate = F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2).flatten(2).softmax(-1)
    return x * gate.unflatten(2, x.shape[2:])
