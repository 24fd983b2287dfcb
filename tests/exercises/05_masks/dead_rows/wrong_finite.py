# finding: the smallest finite number
# Who replaces −1e9 by the smallest number of the dtype and feels safe.
import math

import torch


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1) @ value
