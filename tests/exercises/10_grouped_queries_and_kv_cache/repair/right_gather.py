# Sequences and beams as two axes, each sequence indexed by itself.
import torch
from torch.nn.functional import scaled_dot_product_attention


def continued(old, parents, new):
    sequences = zip(old.unflatten(0, parents.shape), parents, strict=True)
    return torch.cat((torch.cat([beams[parent] for beams, parent in sequences]), new), dim=2)


def repaired(query, key, value, keys, values, parents):
    keys, values = continued(keys, parents, key), continued(values, parents, value)
    return scaled_dot_product_attention(query, keys, values), keys, values
