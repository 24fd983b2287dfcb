# Letters, and a sigmoid by hand.
import torch


def excite(x, w1, w2):
    hidden = torch.einsum("bchw,kc->bk", x, w1).clamp(min=0) / (x.shape[2] * x.shape[3])
    gate = 1 / (1 + torch.exp(-torch.einsum("bk,ck->bc", hidden, w2)))
    return torch.einsum("bchw,bc->bchw", x, gate)
