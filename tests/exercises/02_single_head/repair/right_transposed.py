# Heads moved to the front, matrix products, and back.
def repaired(query, key, value):
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2)
