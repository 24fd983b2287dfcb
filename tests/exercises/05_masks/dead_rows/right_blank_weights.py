# The row of a dead query is blanked before and after the softmax.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    dead = ~mask.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~mask, float("-inf")).masked_fill(dead, 0.0)
    weights = scores.softmax(dim=-1).masked_fill(dead, 0.0)
    return weights @ value
