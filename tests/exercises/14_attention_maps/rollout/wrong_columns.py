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
