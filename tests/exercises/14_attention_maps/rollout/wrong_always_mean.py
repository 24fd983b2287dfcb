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
