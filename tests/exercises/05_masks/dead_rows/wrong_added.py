# finding: added and blanked
# Who has the mask as numbers to add, and looks at outputs only.
import math

import torch


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    added = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask, float("-inf"))
    weights = (scores + added).softmax(dim=-1).nan_to_num()
    return weights @ value
