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
