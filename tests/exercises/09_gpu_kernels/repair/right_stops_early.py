# Tiles without keys are not visited, and a split without keys answers at once.
import math

import torch


def repaired(query, key, value, begin, end, block):
    end = min(end, len(key))
    if begin >= end:
        return query.new_zeros(len(query), value.shape[1]), query.new_full((len(query),), -math.inf)
    maximum = query.new_full((len(query), 1), -math.inf)
    total, output = torch.zeros_like(maximum), query.new_zeros(len(query), value.shape[1])
    for start in range(begin, end, block):
        stop = min(start + block, end)
        scores = query @ key[start:stop].T / math.sqrt(query.shape[1])
        new_maximum = torch.maximum(maximum, scores.amax(dim=1, keepdim=True))
        weights, rescale = torch.exp(scores - new_maximum), torch.exp(maximum - new_maximum)
        total = total * rescale + weights.sum(dim=1, keepdim=True)
        output = output * rescale + weights @ value[start:stop]
        maximum = new_maximum
    return output / total, (maximum + torch.log(total))[:, 0]
