# finding: only the output
# Who thinks of the weights as something inside.
import math


def attend(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights @ value
