# finding: softmax over the heads
# Who has learned that dim=-1 is always right.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[-1])).softmax(dim=-1)
    return torch.einsum("bijh,bjhd->bihd", weights, value)
