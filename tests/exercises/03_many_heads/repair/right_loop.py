# A loop over the query heads, each with the key head of its group.
import torch


def repaired(query, key, value, num_heads, num_kv_heads):
    size, group = query.shape[-1] // num_heads, num_heads // num_kv_heads
    outputs = []
    for h in range(num_heads):
        own, shared = slice(h * size, (h + 1) * size), slice(h // group * size, (h // group + 1) * size)
        weights = (query[..., own] @ key[..., shared].mT / size**0.5).softmax(dim=-1)
        outputs.append(weights @ value[..., shared])
    return torch.cat(outputs, dim=-1)
