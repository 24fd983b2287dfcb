# finding: a sum in the place of a mean
# Who reads the sum of the equation and not what it is divided by.
import torch


def excite(x, w1, w2):
    z = x.sum((2, 3))
    gate = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
    return x * gate[:, :, None, None]
