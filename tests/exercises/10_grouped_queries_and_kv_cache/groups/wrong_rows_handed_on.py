# finding: rows numbered through
# Who hands the rows of a group to a causal attention that knows nothing of groups.
import mhalib


def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    return mhalib.attention(rows, key, value, causal=True).unflatten(2, (-1, query.shape[2])).flatten(1, 2)
