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
