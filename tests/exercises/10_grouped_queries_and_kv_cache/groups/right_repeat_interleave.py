# Key heads repeated in place, then ordinary attention with a mask.
import torch
from torch.nn.functional import scaled_dot_product_attention


def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    group, shift = query.shape[1] // key.shape[1], key.shape[2] - query.shape[2]
    key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(shift)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)
