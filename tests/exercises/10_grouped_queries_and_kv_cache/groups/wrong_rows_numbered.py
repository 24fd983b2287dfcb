# finding: rows numbered through
# Who makes rows of the group and gives the mask as many rows.
import math

import torch


def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    seen = torch.ones(rows.shape[2], key.shape[2], dtype=torch.bool).tril(key.shape[2] - query.shape[2])
    scores = (rows @ key.mT / math.sqrt(query.shape[-1])).masked_fill(~seen, -math.inf)
    return (scores.softmax(dim=-1) @ value).unflatten(2, (-1, query.shape[2])).flatten(1, 2)
