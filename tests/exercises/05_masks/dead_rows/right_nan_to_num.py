# NaN weights become 0; masked_fill lets no gradient pass where it hides.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights.nan_to_num(nan=0.0) @ value
