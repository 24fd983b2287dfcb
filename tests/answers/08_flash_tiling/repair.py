# %% right: masked
# The three lines repaired.
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        scores[:, len(key) - start :] = -math.inf
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = rescale[:, None] * output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], (m + total.log2()) / LOG2E


# %% right: short block
# The last block is short, and everything in base e.
import math

import torch


def repaired(query, key, value, block):
    m = torch.full((len(query), 1), -math.inf, dtype=query.dtype)
    total, output = torch.zeros_like(m), torch.zeros_like(query)
    for k, v in zip(key.split(block), value.split(block), strict=True):
        scores = query @ k.T / math.sqrt(query.shape[1])
        new_m = torch.maximum(m, scores.amax(dim=1, keepdim=True))
        weights, rescale = (scores - new_m).exp(), (m - new_m).exp()
        total = rescale * total + weights.sum(dim=1, keepdim=True)
        output = rescale * output + weights @ v
        m = new_m
    return output / total, (m + total.log()).squeeze(1)


# %% wrong: nothing
# finding: nothing changed
# Who tests one block, and looks at the output.
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], m + total.log2()


# %% wrong: block only
# finding: only the last block
# Who has read that lengths that no block divides are the usual fault (jax issue 27224).
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        scores[:, len(key) - start :] = -math.inf
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], m + total.log2()


# %% wrong: rescale only
# finding: only the rescale
# Who has learned to look for the rescale and stops when it is found.
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = rescale[:, None] * output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], m + total.log2()


# %% wrong: lse only
# finding: only the lse
# Who was told that the base is wrong (vLLM pull request 28840) and changes that.
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], (m + total.log2()) / LOG2E


# %% wrong: base
# finding: the lse is still in base 2
# Who tests the output, which needs no lse.
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        scores[:, len(key) - start :] = -math.inf
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = rescale[:, None] * output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], m + total.log2()


# %% wrong: rescale
# finding: the output is still not rescaled
# Who sees the rescale in the line of the sum and takes it for done.
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        scores[:, len(key) - start :] = -math.inf
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], (m + total.log2()) / LOG2E


# %% wrong: leak
# finding: the last block still leaks
# Who tests lengths of 64 and 128.
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = rescale[:, None] * output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], (m + total.log2()) / LOG2E


# %% wrong: two bases
# finding: two bases in one lse
# Who replaces the logarithm and leaves the maximum.
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        scores[:, len(key) - start :] = -math.inf
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = rescale[:, None] * output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], m + total.log()


# %% wrong: wrong way
# finding: converted the wrong way
# Who multiplies where one has to divide.
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        scores[:, len(key) - start :] = -math.inf
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = rescale[:, None] * output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], (m + total.log2()) * LOG2E
