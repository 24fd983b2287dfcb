# finding: the axis is still wrong
# Who finds the scale, as the standard deviation shows it, and stops.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[-1])).softmax(dim=1)
    return torch.einsum("bijh,bjhd->bihd", weights, value)
