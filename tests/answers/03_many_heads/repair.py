# %% right: grouped axes
# Groups as an axis of their own, nothing repeated.
import torch


def repaired(query, key, value, num_heads, num_kv_heads):
    query = query.unflatten(-1, (num_kv_heads, num_heads // num_kv_heads, -1))  # (B, Lq, Hkv, G, D)
    key, value = (x.unflatten(-1, (num_kv_heads, -1)) for x in (key, value))  # (B, Lk, Hkv, D)
    scores = torch.einsum("bikgd,bjkd->bkgij", query, key) / query.shape[-1] ** 0.5
    return torch.einsum("bkgij,bjkd->bikgd", scores.softmax(dim=-1), value).flatten(2)


# %% right: loop
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


# %% right: torch
# Torch's own function with its switch for groups.
from torch.nn import functional


def repaired(query, key, value, num_heads, num_kv_heads):
    query = query.unflatten(-1, (num_heads, -1)).transpose(1, 2)
    key, value = (x.unflatten(-1, (num_kv_heads, -1)).transpose(1, 2) for x in (key, value))
    return functional.scaled_dot_product_attention(query, key, value, enable_gqa=True).transpose(1, 2).flatten(2)


# %% wrong: nothing
# finding: nothing changed
# Who takes expand for something else than repeat, and changes only that.
def repaired(query, key, value, num_heads, num_kv_heads):
    batch, length, width = query.shape
    size, group = width // num_heads, num_heads // num_kv_heads
    query = query.view(batch, length, num_heads, size).transpose(1, 2)
    key, value = (x.view(batch, -1, 1, num_kv_heads, size) for x in (key, value))
    key, value = (x.expand(-1, -1, group, -1, -1).flatten(2, 3).transpose(1, 2) for x in (key, value))
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).reshape(batch, length, width)


# %% wrong: join
# finding: the join is still wrong
# Who finds the partners with a loop, and trusts reshape.
def repaired(query, key, value, num_heads, num_kv_heads):
    batch, length, width = query.shape
    size, group = width // num_heads, num_heads // num_kv_heads
    query = query.view(batch, length, num_heads, size).transpose(1, 2)
    key, value = (x.view(batch, -1, num_kv_heads, size).transpose(1, 2) for x in (key, value))
    key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).reshape(batch, length, width)


# %% wrong: partners
# finding: the partners are still wrong
# Who tests with one key head and with as many as query heads, where tile and repeat agree.
def repaired(query, key, value, num_heads, num_kv_heads):
    batch, length, width = query.shape
    size, group = width // num_heads, num_heads // num_kv_heads
    query = query.view(batch, length, num_heads, size).transpose(1, 2)
    key, value = (x.view(batch, -1, num_kv_heads, size).transpose(1, 2) for x in (key, value))
    key, value = (x.repeat(1, group, 1, 1) for x in (key, value))
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).reshape(batch, length, width)


# %% wrong: values
# finding: values still tiled
# Who thinks of the scores when reading "grouped", and leaves the values as they are.
def repaired(query, key, value, num_heads, num_kv_heads):
    batch, length, width = query.shape
    size, group = width // num_heads, num_heads // num_kv_heads
    query = query.view(batch, length, num_heads, size).transpose(1, 2)
    key, value = (x.view(batch, -1, num_kv_heads, size).transpose(1, 2) for x in (key, value))
    key, value = key.repeat_interleave(group, dim=1), value.repeat(1, group, 1, 1)
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).reshape(batch, length, width)


# %% wrong: keys
# finding: keys still tiled
# Who changes one of two lines that look alike.
def repaired(query, key, value, num_heads, num_kv_heads):
    batch, length, width = query.shape
    size, group = width // num_heads, num_heads // num_kv_heads
    query = query.view(batch, length, num_heads, size).transpose(1, 2)
    key, value = (x.view(batch, -1, num_kv_heads, size).transpose(1, 2) for x in (key, value))
    key, value = key.repeat(1, group, 1, 1), value.repeat_interleave(group, dim=1)
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).reshape(batch, length, width)


# %% wrong: queries cut
# finding: queries cut to fit
# Who sees that the way in and the way out do not match, and changes the wrong one of them.
def repaired(query, key, value, num_heads, num_kv_heads):
    batch, length, width = query.shape
    size, group = width // num_heads, num_heads // num_kv_heads
    query = query.reshape(batch, num_heads, length, size)
    key, value = (x.view(batch, -1, num_kv_heads, size).transpose(1, 2) for x in (key, value))
    key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).reshape(batch, length, width)
