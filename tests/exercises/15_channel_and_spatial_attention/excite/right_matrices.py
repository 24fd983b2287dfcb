# The equations, line by line.
import torch


def excite(x, w1, w2):
    z = x.mean((2, 3))
    gate = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
    return x * gate[:, :, None, None]
