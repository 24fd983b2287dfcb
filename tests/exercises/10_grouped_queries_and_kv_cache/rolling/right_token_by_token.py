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
