# finding: one row after another
# Who saves memory by copying rows within the cache.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    for b in range(parents.shape[0]):
        for k in range(parents.shape[1]):
            row, parent = b * parents.shape[1] + k, b * parents.shape[1] + int(parents[b, k])
            keys[row], values[row] = keys[parent], values[parent]
    keys, values = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
    return mhalib.attention(query, keys, values), keys, values
