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
