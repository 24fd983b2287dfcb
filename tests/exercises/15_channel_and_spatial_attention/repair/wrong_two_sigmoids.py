# finding: two sigmoids
# Who gives each half a gate of its own and adds those.
import torch


def repaired(x, w1, w2):
    def mlp(pooled):
        return torch.relu(pooled @ w1.T) @ w2.T

    average, maximum = x.mean((2, 3)), x.amax((2, 3))
    scores = mlp(average).sigmoid() + mlp(maximum).sigmoid()
    gate = scores
    return x * gate[:, :, None, None]
