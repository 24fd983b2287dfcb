# finding: nothing changed
# Who renames things and runs it again.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    keys = keys[parents.flatten()]
    keys, values = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
    return mhalib.attention(query, keys, values), keys, values
