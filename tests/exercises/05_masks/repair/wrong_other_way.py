# finding: moved the wrong way
# Who guesses the sign of the diagonal and tests a square mask.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(lq - lk)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(lq - lk - window + 1)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)
