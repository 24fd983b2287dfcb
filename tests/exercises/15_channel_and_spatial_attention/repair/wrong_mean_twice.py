# finding: still the mean twice
# Who changed the softmax and did not read the line above.
import torch


def repaired(x, w1, w2):
    def mlp(pooled):
        return torch.relu(pooled @ w1.T) @ w2.T

    average = x.mean((2, 3))
    scores = mlp(average) + mlp(average)
    gate = torch.sigmoid(scores)
    return x * gate[:, :, None, None]
