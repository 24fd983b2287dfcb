# %% right: equations
# The equations, line by line.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    x = x * channel[:, :, None, None]
    maps = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
    gate = torch.sigmoid(F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2))
    return x * gate


# %% right: two kernels
# A convolution for each map, and their sum.
import torch.nn.functional as F


def refine(x, channel, kernel):
    x = channel.view(*channel.shape, 1, 1) * x
    pad = kernel.shape[2] // 2
    mean = F.conv2d(x.mean(dim=1, keepdim=True), kernel[:, :1], padding=pad)
    maximum = F.conv2d(x.max(dim=1, keepdim=True).values, kernel[:, 1:], padding=pad)
    return x * (mean + maximum).sigmoid()


# %% wrong: side by side
# finding: side by side
# Who reads the two gates as two answers about the same map.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    refined = x * channel[:, :, None, None]
    maps = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
    gate = torch.sigmoid(F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2))
    return refined * gate


# %% wrong: channels lost
# finding: channel gates lost
# Who multiplies the map that entered.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    refined = x * channel[:, :, None, None]
    maps = torch.cat([refined.mean(1, keepdim=True), refined.amax(1, keepdim=True)], dim=1)
    gate = torch.sigmoid(F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2))
    return x * gate


# %% wrong: maximum first
# finding: maximum first
# Who stacks the two maps in either order, since a learned kernel does not mind.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    x = x * channel[:, :, None, None]
    maps = torch.cat([x.amax(1, keepdim=True), x.mean(1, keepdim=True)], dim=1)
    gate = torch.sigmoid(F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2))
    return x * gate


# %% wrong: mean twice
# finding: the mean twice
# Who copies a line and forgets to change it.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    x = x * channel[:, :, None, None]
    maps = torch.cat([x.mean(1, keepdim=True), x.mean(1, keepdim=True)], dim=1)
    gate = torch.sigmoid(F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2))
    return x * gate


# %% wrong: no sigmoid
# finding: no sigmoid
# Who multiplies by the output of the convolution.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    x = x * channel[:, :, None, None]
    maps = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
    gate = F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2)
    return x * gate


# %% wrong: softmax
# finding: softmax over the positions
# Who takes spatial attention for attention over the positions.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    x = x * channel[:, :, None, None]
    maps = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
    gate = F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2).flatten(2).softmax(-1)
    return x * gate.unflatten(2, x.shape[2:])


# %% wrong: pooled
# finding: pooled over the positions
# Who pools as in the channel gate, and makes the shape fit.
import torch
import torch.nn.functional as F


def refine(x, channel, kernel):
    x = x * channel[:, :, None, None]
    mean, maximum = x.mean((2, 3)).mean(1), x.amax((2, 3)).mean(1)
    maps = torch.stack([mean, maximum], dim=1)[:, :, None, None].expand(-1, -1, *x.shape[2:])
    return x * torch.sigmoid(F.conv2d(maps, kernel, padding=kernel.shape[-1] // 2))
