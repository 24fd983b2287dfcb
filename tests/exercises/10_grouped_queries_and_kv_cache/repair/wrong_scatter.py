# finding: children for parents
# Who puts the index on the left of the assignment.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    moved = [keys.clone(), values.clone()]
    for b in range(parents.shape[0]):
        for k in range(parents.shape[1]):
            row, parent = b * parents.shape[1] + k, b * parents.shape[1] + int(parents[b, k])
            moved[0][parent], moved[1][parent] = keys[row], values[row]
    keys, values = torch.cat((moved[0], key), dim=2), torch.cat((moved[1], value), dim=2)
    return mhalib.attention(query, keys, values), keys, values
