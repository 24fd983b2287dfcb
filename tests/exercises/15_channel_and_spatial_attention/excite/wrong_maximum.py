# finding: the maximum
# Who confuses the squeeze with max pooling.
import torch


def excite(x, w1, w2):
    z = x.amax((2, 3))
    gate = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
    return x * gate[:, :, None, None]
