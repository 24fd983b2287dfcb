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
