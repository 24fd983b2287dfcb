# finding: minus a billion
# Who has always written −1e9 (apex issue 93).
import math


def attend(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(mask == 0, -1e9).softmax(dim=-1)
    return weights @ value
