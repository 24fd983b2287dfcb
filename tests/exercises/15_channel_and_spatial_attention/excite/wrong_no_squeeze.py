# finding: no squeeze
# Who holds the means in one variable and reads x in the next line.
import torch


def excite(x, w1, w2):
    z = x.permute(0, 2, 3, 1)
    gate = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
    return x * gate.permute(0, 3, 1, 2)
