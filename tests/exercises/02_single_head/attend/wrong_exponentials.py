# finding: exponentials overflow
# Who writes the softmax as the formula stands in the paper.
import math


def attend(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.exp() / scores.exp().sum(dim=-1, keepdim=True)
    return weights @ value, weights
