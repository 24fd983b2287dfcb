# finding: nothing changed
# Who runs it on a prompt shorter than the window, where it is right.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(0)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(-window)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)
