# finding: the maximum twice
# Who corrects one name too many.
import torch


def repaired(x, w1, w2):
    def mlp(pooled):
        return torch.relu(pooled @ w1.T) @ w2.T

    maximum = x.amax((2, 3))
    scores = mlp(maximum) + mlp(maximum)
    gate = torch.sigmoid(scores)
    return x * gate[:, :, None, None]
