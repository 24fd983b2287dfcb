# finding: only the last block
# Who has read that lengths that no block divides are the usual fault (jax issue 27224).
import math

import torch

LOG2E = 1 / math.log(2)


def repaired(query, key, value, block):
    missing = -len(key) % block
    long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
    m, total = query.new_full((len(query),), -math.inf), query.new_zeros(len(query))
    output = torch.zeros_like(query)
    for start in range(0, len(key), block):
        cols = slice(start, start + block)
        scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 * LOG2E)
        scores[:, len(key) - start :] = -math.inf
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp2(scores - new_m[:, None])
        rescale = torch.exp2(m - new_m)
        total = rescale * total + weights.sum(-1)
        output = output + weights @ long_value[cols]
        m = new_m
    return output / total[:, None], m + total.log2()
