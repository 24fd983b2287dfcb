# finding: beams before sequences
# Who numbers the rows with the sequences varying fastest.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    rows = (parents * parents.shape[0] + torch.arange(parents.shape[0])[:, None]).flatten()
    keys, values = torch.cat((keys[rows], key), dim=2), torch.cat((values[rows], value), dim=2)
    return mhalib.attention(query, keys, values), keys, values
