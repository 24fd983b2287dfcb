# A softmax by hand whose sum is 1 where there is nothing to sum.
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, float("-inf"))
    largest = scores.detach().amax(dim=-1, keepdim=True)
    e = (scores - largest.masked_fill(largest.isinf(), 0.0)).exp()
    total = e.sum(dim=-1, keepdim=True)
    return e / total.masked_fill(total == 0, 1.0) @ value
