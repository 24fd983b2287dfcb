# finding: blanked too late
# Who repairs the output, where the NaN was seen.
import math

import torch


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    dead = ~mask.any(dim=-1, keepdim=True)
    return torch.where(dead, torch.zeros((), dtype=value.dtype), weights @ value)
