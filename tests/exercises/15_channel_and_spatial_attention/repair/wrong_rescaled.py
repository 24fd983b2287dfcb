# finding: softmax made larger
# Who sees gates that are too small and multiplies them.
import torch


def repaired(x, w1, w2):
    def mlp(pooled):
        return torch.relu(pooled @ w1.T) @ w2.T

    average, maximum = x.mean((2, 3)), x.amax((2, 3))
    scores = mlp(average) + mlp(maximum)
    gate = scores.softmax(dim=1) * x.shape[1]
    return x * gate[:, :, None, None]
