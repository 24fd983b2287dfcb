# finding: no relu
# Who takes the two matrices for a way to save weights.
import torch


def excite(x, w1, w2):
    z = x.mean((2, 3))
    gate = torch.sigmoid((z @ w1.T) @ w2.T)
    return x * gate[:, :, None, None]
