# %% right: convolutions
# The matrices as convolutions of one pixel.
import torch.nn.functional as F


def excite(x, w1, w2):
    z = F.adaptive_avg_pool2d(x, 1)
    hidden = F.conv2d(z, w1[:, :, None, None]).relu()
    return x * F.conv2d(hidden, w2[:, :, None, None]).sigmoid()


# %% right: einsum
# Letters, and a sigmoid by hand.
import torch


def excite(x, w1, w2):
    hidden = torch.einsum("bchw,kc->bk", x, w1).clamp(min=0) / (x.shape[2] * x.shape[3])
    gate = 1 / (1 + torch.exp(-torch.einsum("bk,ck->bc", hidden, w2)))
    return torch.einsum("bchw,bc->bchw", x, gate)


# %% right: matrices
# The equations, line by line.
import torch


def excite(x, w1, w2):
    z = x.mean((2, 3))
    gate = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
    return x * gate[:, :, None, None]


# %% wrong: no squeeze
# finding: no squeeze
# Who holds the means in one variable and reads x in the next line.
import torch


def excite(x, w1, w2):
    z = x.permute(0, 2, 3, 1)
    gate = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
    return x * gate.permute(0, 3, 1, 2)


# %% wrong: softmax
# finding: softmax
# Who hears attention and writes a softmax.
import torch


def excite(x, w1, w2):
    z = x.mean((2, 3))
    gate = torch.softmax(torch.relu(z @ w1.T) @ w2.T, dim=1)
    return x * gate[:, :, None, None]


# %% wrong: no sigmoid
# finding: no sigmoid
# Who ends a small network with its last matrix, as networks end.
import torch


def excite(x, w1, w2):
    z = x.mean((2, 3))
    gate = torch.relu(z @ w1.T) @ w2.T
    return x * gate[:, :, None, None]


# %% wrong: no relu
# finding: no relu
# Who takes the two matrices for a way to save weights.
import torch


def excite(x, w1, w2):
    z = x.mean((2, 3))
    gate = torch.sigmoid((z @ w1.T) @ w2.T)
    return x * gate[:, :, None, None]


# %% wrong: sum
# finding: a sum in the place of a mean
# Who reads the sum of the equation and not what it is divided by.
import torch


def excite(x, w1, w2):
    z = x.sum((2, 3))
    gate = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
    return x * gate[:, :, None, None]


# %% wrong: maximum
# finding: the maximum
# Who confuses the squeeze with max pooling.
import torch


def excite(x, w1, w2):
    z = x.amax((2, 3))
    gate = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
    return x * gate[:, :, None, None]


# %% wrong: batch
# finding: mean over the batch
# Who takes the mean over all axes but the channels, as a batch norm does.
import torch


def excite(x, w1, w2):
    z = x.mean((0, 2, 3))
    gate = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
    return x * gate[:, None, None]


# %% wrong: gate alone
# finding: the gate alone
# Who stops at the interesting part.
import torch


def excite(x, w1, w2):
    z = x.mean((2, 3))
    gate = torch.sigmoid(torch.relu(z @ w1.T) @ w2.T)
    return gate[:, :, None, None]
