# finding: output and weights swapped
# Who returns things in the order in which they were computed.
import math


def attend(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights, weights @ value
