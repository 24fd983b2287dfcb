# finding: another kind of error
# Who lets unflatten complain.
import math

import torch


def grouped(query, key, value):
    lq, (kv_heads, lk) = query.shape[2], key.shape[1:3]
    scores = query.unflatten(1, (kv_heads, -1)) @ key[:, :, None].mT / math.sqrt(query.shape[-1])
    future = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq + 1)
    return (scores.masked_fill(future, -math.inf).softmax(dim=-1) @ value[:, :, None]).flatten(1, 2)
