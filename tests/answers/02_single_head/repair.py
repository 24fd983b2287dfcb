# %% right: head by head
# A loop over the heads.
import math

import torch


def repaired(query, key, value):
    heads = []
    for h in range(query.shape[2]):
        scores = query[:, :, h] @ key[:, :, h].mT / math.sqrt(query.shape[3])
        heads.append(scores.softmax(dim=-1) @ value[:, :, h])
    return torch.stack(heads, dim=2)


# %% right: transposed
# Heads moved to the front, matrix products, and back.
def repaired(query, key, value):
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2)


# %% wrong: nothing
# finding: nothing changed
# Who renames things and runs it again.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[2] * query.shape[3])).softmax(dim=1)
    return torch.einsum("bijh,bjhd->bihd", weights, value)


# %% wrong: axis
# finding: the axis is still wrong
# Who finds the scale, as the standard deviation shows it, and stops.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[-1])).softmax(dim=1)
    return torch.einsum("bijh,bjhd->bihd", weights, value)


# %% wrong: scale
# finding: the scale is still wrong
# Who finds the axis, as the test with one query shows it, and stops.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[2] * query.shape[3])).softmax(dim=2)
    return torch.einsum("bijh,bjhd->bihd", weights, value)


# %% wrong: last axis
# finding: softmax over the heads
# Who has learned that dim=-1 is always right.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return torch.einsum("bijh,bjhd->bihd", weights, value)


# %% wrong: last axis and scale
# finding: softmax over the heads, and the scale
# Who puts dim=-1 everywhere and looks no further.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[2] * query.shape[3])).softmax(dim=-1)
    return torch.einsum("bijh,bjhd->bihd", weights, value)


# %% wrong: heads in front
# finding: heads in front
# Who moves the heads to the front, as the library has them, and forgets to move them back.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[-1])).softmax(dim=2)
    return torch.einsum("bijh,bjhd->bhid", weights, value)
