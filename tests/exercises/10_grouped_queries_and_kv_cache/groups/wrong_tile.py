# finding: tile
# Who reads "repeat the key heads" as repeat, as an exporter for a public format did.
import torch
from torch.nn.functional import scaled_dot_product_attention


def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    group, shift = query.shape[1] // key.shape[1], key.shape[2] - query.shape[2]
    key, value = (x.repeat(1, group, 1, 1) for x in (key, value))
    mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(shift)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)
