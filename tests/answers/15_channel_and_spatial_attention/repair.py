# %% right: equation
# The equation of the paper.
import torch


def repaired(x, w1, w2):
    def mlp(pooled):
        return torch.relu(pooled @ w1.T) @ w2.T

    average, maximum = x.mean((2, 3)), x.amax((2, 3))
    scores = mlp(average) + mlp(maximum)
    gate = torch.sigmoid(scores)
    return x * gate[:, :, None, None]


# %% right: stacked
# Both squeezes through the matrices at once.
import torch


def repaired(x, w1, w2):
    pooled = torch.stack([x.flatten(2).mean(-1), x.flatten(2).amax(-1)])  # (2, B, C)
    gate = ((pooled @ w1.T).relu() @ w2.T).sum(dim=0).sigmoid()
    return torch.einsum("bchw,bc->bchw", x, gate)


# %% wrong: nothing
# finding: nothing changed
# Who sees the right shapes and a loss that falls.
import torch


def repaired(x, w1, w2):
    def mlp(pooled):
        return torch.relu(pooled @ w1.T) @ w2.T

    average = x.mean((2, 3))
    scores = mlp(average) + mlp(average)
    gate = scores.softmax(dim=1)
    return x * gate[:, :, None, None]


# %% wrong: softmax
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


# %% wrong: mean twice
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


# %% wrong: rescaled
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


# %% wrong: maximum twice
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


# %% wrong: two sigmoids
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


# %% wrong: added before
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
