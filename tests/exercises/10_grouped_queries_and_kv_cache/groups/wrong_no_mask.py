# finding: no mask
# Who copies the chapter's unmasked groups.
def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    weights = (rows @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
    return (weights @ value).unflatten(2, (-1, query.shape[2])).flatten(1, 2)
