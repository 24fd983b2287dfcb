# finding: still a softmax
# Who found the copied name and takes the softmax for what makes it attention.
import torch


def repaired(x, w1, w2):
    def mlp(pooled):
        return torch.relu(pooled @ w1.T) @ w2.T

    average, maximum = x.mean((2, 3)), x.amax((2, 3))
    scores = mlp(average) + mlp(maximum)
    gate = scores.softmax(dim=1)
    return x * gate[:, :, None, None]
