# Head by head, each with the key head of its group.
import math

import torch


def grouped(query, key, value):
    if query.shape[1] % key.shape[1] != 0:
        raise ValueError("num_kv_heads does not divide num_heads")
    group, heads = query.shape[1] // key.shape[1], []
    for h in range(query.shape[1]):
        scores = query[:, h] @ key[:, h // group].mT / math.sqrt(query.shape[-1])
        last = torch.arange(query.shape[2])[:, None] + key.shape[2] - query.shape[2]
        scores = torch.where(torch.arange(key.shape[2]) <= last, scores, -torch.inf)
        heads.append(scores.softmax(dim=-1) @ value[:, h // group])
    return torch.stack(heads, dim=1)
