# finding: softmax
# Who hears attention and writes a softmax.
import torch


def excite(x, w1, w2):
    z = x.mean((2, 3))
    gate = torch.softmax(torch.relu(z @ w1.T) @ w2.T, dim=1)
    return x * gate[:, :, None, None]
