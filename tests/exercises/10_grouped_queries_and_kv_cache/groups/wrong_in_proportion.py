# finding: no refusal
# Who finds a formula for the key head that never fails, and so never says that it makes no sense.
import math

import torch


def grouped(query, key, value):
    (heads, lq), (kv_heads, lk) = query.shape[1:3], key.shape[1:3]
    reads = torch.arange(heads) * kv_heads // heads
    scores = query @ key[:, reads].mT / math.sqrt(query.shape[-1])
    future = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq + 1)
    return scores.masked_fill(future, -math.inf).softmax(dim=-1) @ value[:, reads]
