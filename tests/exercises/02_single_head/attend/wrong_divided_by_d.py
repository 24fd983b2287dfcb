# finding: divided by d
# Who remembers that one divides by the size of the head, and forgets the root.
def attend(query, key, value):
    scores = query @ key.mT / query.shape[-1]
    weights = scores.softmax(dim=-1)
    return weights @ value, weights
