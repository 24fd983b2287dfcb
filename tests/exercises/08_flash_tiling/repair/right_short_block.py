# The last block is short, and everything in base e.
import math

import torch


def repaired(query, key, value, block):
    m = torch.full((len(query), 1), -math.inf, dtype=query.dtype)
    total, output = torch.zeros_like(m), torch.zeros_like(query)
    for k, v in zip(key.split(block), value.split(block), strict=True):
        scores = query @ k.T / math.sqrt(query.shape[1])
        new_m = torch.maximum(m, scores.amax(dim=1, keepdim=True))
        weights, rescale = (scores - new_m).exp(), (m - new_m).exp()
        total = rescale * total + weights.sum(dim=1, keepdim=True)
        output = rescale * output + weights @ v
        m = new_m
    return output / total, (m + total.log()).squeeze(1)
