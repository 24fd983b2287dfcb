# Row numbers in the whole batch, used once for both.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, keys, values, parents):
    sequences, beams = parents.shape
    rows = (torch.arange(sequences)[:, None] * beams + parents).flatten()
    keys, values = torch.cat((keys[rows], key), dim=2), torch.cat((values[rows], value), dim=2)
    return scaled_dot_product_attention(query, keys, values), keys, values
