# finding: values stay behind
# Who finds the rows of the batch and stops.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    rows = (torch.arange(parents.shape[0])[:, None] * parents.shape[1] + parents).flatten()
    keys, values = torch.cat((keys[rows], key), dim=2), torch.cat((values, value), dim=2)
    return mhalib.attention(query, keys, values), keys, values
