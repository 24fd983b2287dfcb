# %% right: einsum
# Letters in the place of transposes.
import math

import torch


def attend(query, key, value):
    weights = (torch.einsum("...id,...jd->...ij", query, key) / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return torch.einsum("...ij,...jd->...id", weights, value), weights


# %% right: loop
# One query at a time.
import math

import torch


def attend(query, key, value):
    rows = []
    for i in range(query.shape[-2]):
        scores = (query[..., i, None, :] * key).sum(dim=-1) / math.sqrt(query.shape[-1])
        rows.append(torch.softmax(scores, dim=-1))
    weights = torch.stack(rows, dim=-2)
    return weights @ value, weights


# %% right: scaled query
# The scale on the query, and a softmax by hand that subtracts the largest score.
def attend(query, key, value):
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    e = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    weights = e / e.sum(dim=-1, keepdim=True)
    return weights @ value, weights


# %% wrong: no scale
# finding: no scale
# Who learned attention as softmax(QKᵀ)V and took the scale for a detail of training.
def attend(query, key, value):
    scores = query @ key.mT
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


# %% wrong: divided by d
# finding: divided by d
# Who remembers that one divides by the size of the head, and forgets the root.
def attend(query, key, value):
    scores = query @ key.mT / query.shape[-1]
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


# %% wrong: scale from length
# finding: scale from the length
# Who takes the length of the sequence for d: it stands where the size is in a transposed key.
import math


def attend(query, key, value):
    scores = query @ key.mT / math.sqrt(key.shape[-2])
    weights = scores.softmax(dim=-1)
    return weights @ value, weights


# %% wrong: softmax over queries
# finding: softmax over the queries
# Who counts the axes from the front, or reads the map by columns.
import math


def attend(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.softmax(dim=-2)
    return weights @ value, weights


# %% wrong: exponentials
# finding: exponentials overflow
# Who writes the softmax as the formula stands in the paper.
import math


def attend(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
    return weights @ value, weights


# %% wrong: only output
# finding: only the output
# Who thinks of the weights as something inside.
import math


def attend(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights @ value


# %% wrong: swapped
# finding: output and weights swapped
# Who returns things in the order in which they were computed.
import math


def attend(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights, weights @ value
