# %% right: loop
# Half and half left out, as the division takes it away; the product from the right.
import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    joint = identity
    for layer in fused:
        mixed = layer + identity
        mixed = mixed / mixed.sum(dim=-1, keepdim=True)
        joint = mixed @ joint
    return joint


# %% right: reduce
# All layers at once, then a reduction from the last to the first.
import functools

import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    mixed = 0.5 * fused + 0.5 * torch.eye(maps.shape[-1], dtype=maps.dtype)
    mixed = mixed / mixed.sum(dim=-1, keepdim=True)
    return functools.reduce(torch.matmul, reversed(mixed.unbind(0)))


# %% right: walkers
# A walker for each token, who goes back from the last layer: rows stand on the left.
import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    walkers = identity
    for layer in fused.flip(0):
        mixed = layer + identity
        walkers = torch.einsum("ij,jk->ik", walkers, mixed / mixed.sum(dim=1)[:, None])
    return walkers


# %% wrong: no residual
# finding: no residual
# Who multiplies the attention matrices as they are.
import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    joint = identity
    for layer in fused:
        mixed = layer / layer.sum(dim=-1, keepdim=True)
        joint = mixed @ joint
    return joint


# %% wrong: order
# finding: the wrong order
# Who multiplies in the order in which the layers come.
import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    joint = identity
    for layer in fused:
        mixed = layer + identity
        mixed = mixed / mixed.sum(dim=-1, keepdim=True)
        joint = joint @ mixed
    return joint


# %% wrong: no division
# finding: rows not divided
# Who has seen that with the mean the rows sum to 1 already.
import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    joint = identity
    for layer in fused:
        mixed = (layer + identity) / 2
        joint = mixed @ joint
    return joint


# %% wrong: columns
# finding: columns divided
# Who thinks of what a token gives away in the place of what it holds.
import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    joint = identity
    for layer in fused:
        mixed = layer + identity
        mixed = mixed / mixed.sum(dim=-2, keepdim=True)
        joint = mixed @ joint
    return joint


# %% wrong: keepdim
# finding: divided without keepdim
# Who copies a published script, in which the sums lie along the wrong axis.
import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    joint = identity
    for layer in fused:
        mixed = layer + identity
        mixed = mixed / mixed.sum(dim=-1)
        joint = mixed @ joint
    return joint


# %% wrong: divided at the end
# finding: divided at the end
# Who divides once, so that the result looks right.
import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    joint = identity
    for layer in fused:
        mixed = (layer + identity) / 2
        joint = mixed @ joint
    return joint / joint.sum(dim=-1, keepdim=True)


# %% wrong: always mean
# finding: always the mean
# Who writes the paper's formula and leaves the argument unread.
import torch


def rollout(maps, fusion):
    fused = maps.mean(dim=1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    joint = identity
    for layer in fused:
        mixed = layer + identity
        mixed = mixed / mixed.sum(dim=-1, keepdim=True)
        joint = mixed @ joint
    return joint


# %% wrong: heads apart
# finding: heads apart to the end
# Who follows each head through the layers, as if heads of one number were connected.
import torch


def rollout(maps, fusion):
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    heads = []
    for head in maps.unbind(1):
        joint = identity
        for layer in head:
            joint = (layer + identity) / 2 @ joint
        heads.append(joint)
    heads = torch.stack(heads)
    return {"mean": heads.mean, "max": heads.amax, "min": heads.amin}[fusion](0)


# %% wrong: last layer
# finding: the last layer alone
# Who begins anew in each layer.
import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
    joint = identity
    for layer in fused:
        mixed = layer + identity
        mixed = mixed / mixed.sum(dim=-1, keepdim=True)
        joint = mixed @ identity
    return joint


# %% wrong: everywhere
# finding: one half added everywhere
# Who adds the residual's half as a number.
import torch


def rollout(maps, fusion):
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    joint = torch.eye(maps.shape[-1], dtype=maps.dtype)
    for layer in fused:
        mixed = 0.5 * layer + 0.5
        mixed = mixed / mixed.sum(dim=-1, keepdim=True)
        joint = mixed @ joint
    return joint


# %% wrong: in place
# finding: writes into the maps
# Who adds the residual on the diagonals, in the maps themselves.
import torch


def rollout(maps, fusion):
    maps.diagonal(dim1=-2, dim2=-1).add_(1)
    fused = {"mean": maps.mean, "max": maps.amax, "min": maps.amin}[fusion](1)
    joint = torch.eye(maps.shape[-1], dtype=maps.dtype)
    for layer in fused:
        joint = layer / layer.sum(dim=-1, keepdim=True) @ joint
    return joint
