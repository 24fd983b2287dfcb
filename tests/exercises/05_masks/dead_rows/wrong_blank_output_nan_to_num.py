# finding: blanked too late
# Who calls nan_to_num on what comes out.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return (weights @ value).nan_to_num()
