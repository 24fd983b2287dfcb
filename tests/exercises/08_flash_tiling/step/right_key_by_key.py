# Row by row and key by key, in plain Python.
import math

import torch


def step(state, scores):
    rows = []
    for (m, total, moment), row in zip(zip(*state, strict=True), scores, strict=True):
        m, total, moment = m.item(), total.item(), moment.item()
        for x in row.tolist():
            if x == -math.inf:
                continue
            new_m = max(m, x)
            old, new = math.exp(m - new_m), math.exp(x - new_m)
            m, total, moment = new_m, old * total + new, old * moment + new * x
        rows.append((m, total, moment))
    return tuple(torch.tensor(column, dtype=scores.dtype) for column in zip(*rows, strict=True))
