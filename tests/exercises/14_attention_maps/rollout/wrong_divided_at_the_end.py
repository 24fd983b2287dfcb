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
