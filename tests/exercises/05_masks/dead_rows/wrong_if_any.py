# finding: only if all are dead
# Who catches the empty input and not the empty row.
import math

import torch


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    if not mask.any():
        return torch.zeros_like(query)
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1) @ value
