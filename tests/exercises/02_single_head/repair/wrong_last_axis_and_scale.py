# finding: softmax over the heads, and the scale
# Who puts dim=-1 everywhere and looks no further.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[2] * query.shape[3])).softmax(dim=-1)
    return torch.einsum("bijh,bjhd->bihd", weights, value)
