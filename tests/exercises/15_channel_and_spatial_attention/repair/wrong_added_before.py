# finding: added before the matrices
# Who saves a pass through the matrices, because they are linear.
import torch


def repaired(x, w1, w2):
    def mlp(pooled):
        return torch.relu(pooled @ w1.T) @ w2.T

    average, maximum = x.mean((2, 3)), x.amax((2, 3))
    scores = mlp(average + maximum)
    gate = torch.sigmoid(scores)
    return x * gate[:, :, None, None]
