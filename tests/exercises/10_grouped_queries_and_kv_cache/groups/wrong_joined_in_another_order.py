# finding: heads come back in another order
# Who writes the einsum right and lists the axes of its result in another order.
import math

import torch


def grouped(query, key, value):
    (heads, lq), (kv_heads, lk) = query.shape[1:3], key.shape[1:3]
    if heads % kv_heads:
        raise ValueError("not divisible")
    scores = torch.einsum("bkgid,bkjd->bkgij", query.unflatten(1, (kv_heads, -1)), key) / math.sqrt(query.shape[-1])
    future = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq + 1)
    weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
    return torch.einsum("bkgij,bkjd->bgkid", weights, value).flatten(1, 2)
