# finding: the scale is still wrong
# Who finds the axis, as the test with one query shows it, and stops.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[2] * query.shape[3])).softmax(dim=2)
    return torch.einsum("bijh,bjhd->bihd", weights, value)
