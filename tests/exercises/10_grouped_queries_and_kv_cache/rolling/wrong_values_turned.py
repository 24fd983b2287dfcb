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
