# finding: NaN painted over
# Who wants a number for every split and takes 0.
import math

import torch


def load(x, rows):
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def repaired(query, key, value, begin, end, block):
    maximum = torch.full((len(query),), -math.inf, dtype=query.dtype)
    total = torch.zeros_like(maximum)
    output = torch.zeros(len(query), value.shape[1], dtype=query.dtype)
    for start in range(begin, end, block):
        keys = start + torch.arange(block)
        scores = query @ load(key, keys).T / math.sqrt(query.shape[1])
        scores = scores.masked_fill((keys >= len(key)) | (keys >= end), -math.inf)
        new_maximum = torch.maximum(maximum, scores.amax(dim=1))
        pivot = new_maximum.masked_fill(new_maximum == -math.inf, 0.0)
        weights, rescale = torch.exp(scores - pivot[:, None]), torch.exp(maximum - pivot)
        total = total * rescale + weights.sum(dim=1)
        output = output * rescale[:, None] + weights @ load(value, keys)
        maximum = new_maximum
    lse = torch.where(total == 0, 0.0, maximum + torch.log(total))
    return output / total.masked_fill(total == 0, 1.0)[:, None], lse
