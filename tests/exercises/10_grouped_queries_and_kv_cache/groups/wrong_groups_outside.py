# finding: tile
# Who splits the query heads with the members of a group outside and the key heads inside.
import math

import torch


def grouped(query, key, value):
    (heads, lq), (kv_heads, lk) = query.shape[1:3], key.shape[1:3]
    if heads % kv_heads:
        raise ValueError("not divisible")
    scores = query.unflatten(1, (-1, kv_heads)) @ key[:, None].mT / math.sqrt(query.shape[-1])
    future = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq + 1)
    return (scores.masked_fill(future, -math.inf).softmax(dim=-1) @ value[:, None]).flatten(1, 2)
