# %% right: library
# The library's attention with a window.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys = torch.cat((keys, rotary(key, at)), dim=2)
    values = torch.cat((values, value), dim=2)
    output = mhalib.attention(rotary(query, at), keys, values, causal=True, window=window)
    start = max(0, keys.shape[2] - window + 1)
    return output, (keys[:, :, start:], values[:, :, start:], count + n)


# %% right: positions
# Positions of queries and keys written out, and a mask from their distances.
import math

import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n, kept = query.shape[2], keys.shape[2]
    mine = torch.arange(count, count + n)
    theirs = torch.arange(count - kept, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, mine)), dim=2), torch.cat((values, value), dim=2)
    distance = mine[:, None] - theirs
    scores = rotary(query, mine) @ keys.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill((distance < 0) | (distance >= window), -math.inf)
    alive = theirs > count + n - window
    return scores.softmax(dim=-1) @ values, (keys[:, :, alive], values[:, :, alive], count + n)


# %% right: token by token
# One token at a time: then no mask is needed.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    rotary, rows = mhalib.RotaryEmbedding(query.shape[-1]), []
    for i in range(query.shape[2]):
        at = torch.tensor([count])
        keys = torch.cat((keys, rotary(key[:, :, i : i + 1], at)), dim=2)[:, :, -window:]
        values = torch.cat((values, value[:, :, i : i + 1]), dim=2)[:, :, -window:]
        rows.append(mhalib.attention(rotary(query[:, :, i : i + 1], at), keys, values))
        count += 1
    if keys.shape[2] == window:
        keys, values = keys[:, :, 1:], values[:, :, 1:]
    return torch.cat(rows, dim=2), (keys, values, count)


# %% wrong: from zero
# finding: numbers from 0
# Who numbers the tokens of each step by themselves.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    output = mhalib.attention(rotary(query, at), keys, values, causal=True, window=window)
    start = max(0, keys.shape[2] - window + 1)
    return output, (keys[:, :, start:], values[:, :, start:], count + n)


# %% wrong: by kept
# finding: numbered by what is kept
# Who takes the position from the length of the cache, as one may with a cache that never drops anything.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(keys.shape[2], keys.shape[2] + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    output = mhalib.attention(rotary(query, at), keys, values, causal=True, window=window)
    start = max(0, keys.shape[2] - window + 1)
    return output, (keys[:, :, start:], values[:, :, start:], count + n)


# %% wrong: is causal
# finding: the corner
# Who asks torch for a causal mask, which begins at the top left.
import torch
from torch.nn.functional import scaled_dot_product_attention

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    output = scaled_dot_product_attention(rotary(query, at), keys, values, is_causal=True)
    start = max(0, keys.shape[2] - window + 1)
    return output, (keys[:, :, start:], values[:, :, start:], count + n)


# %% wrong: causal alone
# finding: no window in the mask
# Who believes that a cache of the window's size is the window.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    output = mhalib.attention(rotary(query, at), keys, values, causal=True)
    start = max(0, keys.shape[2] - window + 1)
    return output, (keys[:, :, start:], values[:, :, start:], count + n)


# %% wrong: no mask
# finding: no mask
# Who knows that a decoding step needs no mask, and meets a prompt.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    weights = (rotary(query, at) @ keys.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    start = max(0, keys.shape[2] - window + 1)
    return weights @ values, (keys[:, :, start:], values[:, :, start:], count + n)


# %% wrong: cut first
# finding: cut before attending
# Who updates the cache wholly, cut included, and then reads it.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys = torch.cat((keys, rotary(key, at)), dim=2)[:, :, -window:]
    values = torch.cat((values, value), dim=2)[:, :, -window:]
    output = mhalib.attention(rotary(query, at), keys, values, causal=True, window=window)
    start = max(0, keys.shape[2] - window + 1)
    return output, (keys[:, :, start:], values[:, :, start:], count + n)


# %% wrong: cut to what is kept
# finding: cut before attending
# Who cuts to the size that the next step needs, and attends with that in this one.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    start = max(0, keys.shape[2] - window + 1)
    keys, values = keys[:, :, start:], values[:, :, start:]
    return mhalib.attention(rotary(query, at), keys, values, causal=True, window=window), (keys, values, count + n)


# %% wrong: keeps first
# finding: keeps the first
# Who cuts at the wrong end.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    output = mhalib.attention(rotary(query, at), keys, values, causal=True, window=window)
    return output, (keys[:, :, : window - 1], values[:, :, : window - 1], count + n)


# %% wrong: keeps everything
# finding: keeps everything
# Who lets the mask do the work and never frees anything, as a published lesson did.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    output = mhalib.attention(rotary(query, at), keys, values, causal=True, window=window)
    return output, (keys, values, count + n)


# %% wrong: one too many
# finding: keeps one too many
# Who forgets that the window counts the token itself.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    output = mhalib.attention(rotary(query, at), keys, values, causal=True, window=window)
    return output, (keys[:, :, -window:], values[:, :, -window:], count + n)


# %% wrong: minus nought
# finding: minus nought
# Who counts from the end, which works for every number but one.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    output = mhalib.attention(rotary(query, at), keys, values, causal=True, window=window)
    return output, (keys[:, :, -(window - 1) :], values[:, :, -(window - 1) :], count + n)


# %% wrong: values turned
# finding: values turned
# Who turns everything that comes out of a projection.
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    query, key, value = (rotary(x, at) for x in (query, key, value))
    keys, values = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
    output = mhalib.attention(query, keys, values, causal=True, window=window)
    start = max(0, keys.shape[2] - window + 1)
    return output, (keys[:, :, start:], values[:, :, start:], count + n)


# %% wrong: count
# finding: counts what is kept
# Who takes "how many tokens" for "how many in the cache".
import torch

import mhalib


def rolling_step(query, key, value, past, window):
    keys, values, count = past
    n = query.shape[2]
    at = torch.arange(count, count + n)
    rotary = mhalib.RotaryEmbedding(query.shape[-1])
    keys, values = torch.cat((keys, rotary(key, at)), dim=2), torch.cat((values, value), dim=2)
    output = mhalib.attention(rotary(query, at), keys, values, causal=True, window=window)
    start = max(0, keys.shape[2] - window + 1)
    keys, values = keys[:, :, start:], values[:, :, start:]
    return output, (keys, values, keys.shape[2])
