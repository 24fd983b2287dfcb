# Both squeezes through the matrices at once.
import torch


def repaired(x, w1, w2):
    pooled = torch.stack([x.flatten(2).mean(-1), x.flatten(2).amax(-1)])  # (2, B, C)
    gate = ((pooled @ w1.T).relu() @ w2.T).sum(dim=0).sigmoid()
    return torch.einsum("bchw,bc->bchw", x, gate)
