# finding: the new token moves too
# Who appends first and reorders the whole.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    rows = (torch.arange(parents.shape[0])[:, None] * parents.shape[1] + parents).flatten()
    keys, values = torch.cat((keys, key), dim=2)[rows], torch.cat((values, value), dim=2)[rows]
    return mhalib.attention(query, keys, values), keys, values
