# finding: only the future was moved, and the width
# Who copies the diagonal of a causal mask with a cache and leaves the window alone.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(lk - lq)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(-window)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)
