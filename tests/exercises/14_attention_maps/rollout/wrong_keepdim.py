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
