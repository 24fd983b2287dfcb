# finding: scale from the length
# Who takes the length of the sequence for d: it stands where the size is in a transposed key.
import math


def attend(query, key, value):
    scores = query @ key.mT / math.sqrt(key.shape[-2])
    weights = scores.softmax(dim=-1)
    return weights @ value, weights
