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
