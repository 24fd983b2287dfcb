# One query at a time.
import math

import torch


def attend(query, key, value):
    rows = []
    for i in range(query.shape[-2]):
        scores = (query[..., i, None, :] * key).sum(dim=-1) / math.sqrt(query.shape[-1])
        rows.append(torch.softmax(scores, dim=-1))
    weights = torch.stack(rows, dim=-2)
    return weights @ value, weights
