# finding: nothing changed
# Who renames things and runs it again.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[2] * query.shape[3])).softmax(dim=1)
    return torch.einsum("bijh,bjhd->bihd", weights, value)
