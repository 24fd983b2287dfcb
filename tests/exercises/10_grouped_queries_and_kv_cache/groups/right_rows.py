# The queries of a group as rows of one product, and a mask repeated for each of them.
import math

import torch


def grouped(query, key, value):
    (heads, lq), (kv_heads, lk) = query.shape[1:3], key.shape[1:3]
    if heads % kv_heads:
        raise ValueError(f"key: {kv_heads} heads do not divide the {heads} of query")
    rows = query.unflatten(1, (kv_heads, -1)).flatten(2, 3)
    future = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq + 1).repeat(heads // kv_heads, 1)
    scores = (rows @ key.mT / math.sqrt(query.shape[-1])).masked_fill(future, -math.inf)
    return (scores.softmax(dim=-1) @ value).unflatten(2, (-1, lq)).flatten(1, 2)
