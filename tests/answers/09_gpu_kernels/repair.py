# %% right: pivot
# A pivot of 0 while nothing has been seen, and a divisor of 1 where the sum is 0.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill(keys >= min(end, len(key)), -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        pivot = torch.where(new_maximum == -math.inf, 0.0, new_maximum)
        weights, rescale = torch.exp(scores - pivot[:, None]), torch.exp(maximum - pivot)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    return output / torch.where(total == 0, 1.0, total)[:, None], maximum + torch.log(total)


# %% right: stops early
# Tiles without keys are not visited, and a split without keys answers at once.
import math

import torch


def repaired(query, key, value, begin, end, block):
    end = min(end, len(key))
    if begin >= end:
        return query.new_zeros(len(query), value.shape[1]), query.new_full((len(query),), -math.inf)
    maximum = query.new_full((len(query), 1), -math.inf)
    total, output = torch.zeros_like(maximum), query.new_zeros(len(query), value.shape[1])
    for start in range(begin, end, block):
        stop = min(start + block, end)
        scores = query @ key[start:stop].T / math.sqrt(query.shape[1])
        new_maximum = torch.maximum(maximum, scores.amax(dim=1, keepdim=True))
        weights, rescale = torch.exp(scores - new_maximum), torch.exp(maximum - new_maximum)
        total = total * rescale + weights.sum(dim=1, keepdim=True)
        output = output * rescale + weights @ value[start:stop]
        maximum = new_maximum
    return output / total, (maximum + torch.log(total))[:, 0]


# %% wrong: nothing
# finding: nothing changed
# Who renames things and runs it again.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill(keys >= len(key), -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        weights = torch.exp(scores - new_maximum[:, None])
        rescale = torch.exp(maximum - new_maximum)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    return output / total[:, None], maximum + torch.log(total)


# %% wrong: into next
# finding: into the next split
# Who sees the NaN, finds its cause, and stops.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill(keys >= len(key), -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        pivot = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
        weights, rescale = torch.exp(scores - pivot[:, None]), torch.exp(maximum - pivot)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    return output / total.masked_fill(total == 0, 1.0)[:, None], maximum + torch.log(total)


# %% wrong: still nan
# finding: still NaN
# Who counts the keys, as the sum of the splits shows, and stops.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill((keys >= len(key)) | (keys >= end), -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        weights = torch.exp(scores - new_maximum[:, None])
        rescale = torch.exp(maximum - new_maximum)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    return output / total[:, None], maximum + torch.log(total)


# %% wrong: no divisor
# finding: nothing divided by nothing
# Who cures the exponentials and forgets the division.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill((keys >= len(key)) | (keys >= end), -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        pivot = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
        weights, rescale = torch.exp(scores - pivot[:, None]), torch.exp(maximum - pivot)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    return output / total[:, None], maximum + torch.log(total)


# %% wrong: painted
# finding: NaN painted over
# Who has a function for NaN and asks no further.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill((keys >= len(key)) | (keys >= end), -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        weights = torch.exp(scores - new_maximum[:, None])
        rescale = torch.exp(maximum - new_maximum)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    output, lse = output / total[:, None], maximum + torch.log(total)
    return torch.nan_to_num(output), torch.nan_to_num(lse)


# %% wrong: zero lse
# finding: NaN painted over
# Who wants a number for every split and takes 0.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill((keys >= len(key)) | (keys >= end), -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        pivot = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
        weights, rescale = torch.exp(scores - pivot[:, None]), torch.exp(maximum - pivot)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    lse = torch.where(total == 0, 0.0, maximum + torch.log(total))
    return output / total.masked_fill(total == 0, 1.0)[:, None], lse


# %% wrong: missing count
# finding: missing keys count
# Who replaces one bound by the other.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill(keys >= end, -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        pivot = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
        weights, rescale = torch.exp(scores - pivot[:, None]), torch.exp(maximum - pivot)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    return output / total.masked_fill(total == 0, 1.0)[:, None], maximum + torch.log(total)


# %% wrong: plus infinity
# finding: plus infinity
# Who marks an empty row with the infinity at hand, as a public kernel did.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill((keys >= len(key)) | (keys >= end), -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        pivot = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
        weights, rescale = torch.exp(scores - pivot[:, None]), torch.exp(maximum - pivot)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    lse = torch.where(total == 0, math.inf, maximum + torch.log(total))
    return output / total.masked_fill(total == 0, 1.0)[:, None], lse


# %% wrong: large number
# finding: a large number for infinity
# Who avoids infinity by a number that is nearly as good.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -1e9, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill((keys >= len(key)) | (keys >= end), -1e9)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        weights = torch.exp(scores - new_maximum[:, None])
        rescale = torch.exp(maximum - new_maximum)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    return output / total[:, None], maximum + torch.log(total)
