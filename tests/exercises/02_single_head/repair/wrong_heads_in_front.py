# finding: heads in front
# Who moves the heads to the front, as the library has them, and forgets to move them back.
import math

import torch


def repaired(query, key, value):
    scores = torch.einsum("bihd,bjhd->bijh", query, key)
    weights = (scores / math.sqrt(query.shape[-1])).softmax(dim=2)
    return torch.einsum("bijh,bjhd->bhid", weights, value)
