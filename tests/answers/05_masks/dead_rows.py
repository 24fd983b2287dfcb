# %% right: blank weights
# The row of a dead query is blanked before and after the softmax.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    dead = ~mask.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~mask, float("-inf")).masked_fill(dead, 0.0)
    weights = scores.softmax(dim=-1).masked_fill(dead, 0.0)
    return weights @ value


# %% right: by hand
# A softmax by hand whose sum is 1 where there is nothing to sum.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, float("-inf"))
    largest = scores.detach().amax(dim=-1, keepdim=True)
    e = (scores - largest.masked_fill(largest.isinf(), 0.0)).exp()
    total = e.sum(dim=-1, keepdim=True)
    return e / total.masked_fill(total == 0, 1.0) @ value


# %% right: finite then zero
# The smallest finite number, and then the hidden weights set to 0.
import math

import torch


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1) * mask @ value


# %% right: nan to num
# NaN weights become 0; masked_fill lets no gradient pass where it hides.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights.nan_to_num(nan=0.0) @ value


# %% wrong: nan
# finding: the dead row is NaN
# Who masks by the book and has no empty row in the tests (PyTorch issue 41508).
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights @ value


# %% wrong: blank output
# finding: blanked too late
# Who repairs the output, where the NaN was seen.
import math

import torch


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    dead = ~mask.any(dim=-1, keepdim=True)
    return torch.where(dead, torch.zeros((), dtype=value.dtype), weights @ value)


# %% wrong: blank output nan to num
# finding: blanked too late
# Who calls nan_to_num on what comes out.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return (weights @ value).nan_to_num()


# %% wrong: added
# finding: added and blanked
# Who has the mask as numbers to add, and looks at outputs only.
import math

import torch


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    added = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask, float("-inf"))
    weights = (scores + added).softmax(dim=-1).nan_to_num()
    return weights @ value


# %% wrong: billion
# finding: minus a billion
# Who has always written −1e9 (apex issue 93).
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(mask == 0, -1e9).softmax(dim=-1)
    return weights @ value


# %% wrong: finite
# finding: the smallest finite number
# Who replaces −1e9 by the smallest number of the dtype and feels safe.
import math

import torch


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1) @ value


# %% wrong: weights zeroed
# finding: weights set to zero
# Who hides the keys after the softmax, where no NaN can arise.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1).masked_fill(~mask, 0.0) @ value


# %% wrong: if any
# finding: only if all are dead
# Who catches the empty input and not the empty row.
import math

import torch


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if not mask.any():
        return torch.zeros_like(query)
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1) @ value


# %% wrong: polarity
# finding: True hides
# Who reads True as nn.MultiheadAttention does.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(mask, float("-inf")).softmax(dim=-1)
    return weights.nan_to_num() @ value
