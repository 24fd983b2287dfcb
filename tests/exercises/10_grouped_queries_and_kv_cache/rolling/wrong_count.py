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
