# finding: the dead row is NaN
# Who masks by the book and has no empty row in the tests (PyTorch issue 41508).
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return weights @ value
