# finding: always the first sequence
# Who remembers the values and tries it with one sequence.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    rows = parents.flatten()
    keys, values = torch.cat((keys[rows], key), dim=2), torch.cat((values[rows], value), dim=2)
    return mhalib.attention(query, keys, values), keys, values
