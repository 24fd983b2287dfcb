# finding: weights set to zero
# Who hides the keys after the softmax, where no NaN can arise.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1).masked_fill(~mask, 0.0) @ value
