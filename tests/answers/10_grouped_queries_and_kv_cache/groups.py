# %% right: loop
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


# %% right: repeat interleave
# Key heads repeated in place, then ordinary attention with a mask.
import torch
from torch.nn.functional import scaled_dot_product_attention


def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    group, shift = query.shape[1] // key.shape[1], key.shape[2] - query.shape[2]
    key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(shift)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)


# %% right: rows
# The queries of a group as rows of one product, and a mask repeated for each of them.
import math

import torch


def grouped(query, key, value):
    (heads, lq), (kv_heads, lk) = query.shape[1:3], key.shape[1:3]
    if heads % kv_heads:
        raise ValueError(f"key: {kv_heads} heads do not divide the {heads} of query")
    rows = query.unflatten(1, (kv_heads, -1)).flatten(2, 3)
    future = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq + 1).repeat(heads // kv_heads, 1)
    scores = (rows @ key.mT / math.sqrt(query.shape[-1])).masked_fill(future, -math.inf)
    return (scores.softmax(dim=-1) @ value).unflatten(2, (-1, lq)).flatten(1, 2)


# %% wrong: groups outside
# finding: tile
# Who splits the query heads with the members of a group outside and the key heads inside.
import math

import torch


def grouped(query, key, value):
    (heads, lq), (kv_heads, lk) = query.shape[1:3], key.shape[1:3]
    if heads % kv_heads:
        raise ValueError("not divisible")
    scores = query.unflatten(1, (-1, kv_heads)) @ key[:, None].mT / math.sqrt(query.shape[-1])
    future = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq + 1)
    return (scores.masked_fill(future, -math.inf).softmax(dim=-1) @ value[:, None]).flatten(1, 2)


# %% wrong: tile
# finding: tile
# Who reads "repeat the key heads" as repeat, as an exporter for a public format did.
import torch
from torch.nn.functional import scaled_dot_product_attention


def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    group, shift = query.shape[1] // key.shape[1], key.shape[2] - query.shape[2]
    key, value = (x.repeat(1, group, 1, 1) for x in (key, value))
    mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(shift)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)


# %% wrong: is causal
# finding: top left corner
# Who trusts that is_causal means what it means elsewhere.
from torch.nn.functional import scaled_dot_product_attention


def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    return scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


# %% wrong: no mask
# finding: no mask
# Who copies the chapter's unmasked groups.
def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    weights = (rows @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
    return (weights @ value).unflatten(2, (-1, query.shape[2])).flatten(1, 2)


# %% wrong: rows handed on
# finding: rows numbered through
# Who hands the rows of a group to a causal attention that knows nothing of groups.
import mhalib


def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    rows = query.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
    return mhalib.attention(rows, key, value, causal=True).unflatten(2, (-1, query.shape[2])).flatten(1, 2)


# %% wrong: rows numbered
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


# %% wrong: joined in another order
# finding: heads come back in another order
# Who writes the einsum right and lists the axes of its result in another order.
import math

import torch


def grouped(query, key, value):
    (heads, lq), (kv_heads, lk) = query.shape[1:3], key.shape[1:3]
    if heads % kv_heads:
        raise ValueError("not divisible")
    scores = torch.einsum("bkgid,bkjd->bkgij", query.unflatten(1, (kv_heads, -1)), key) / math.sqrt(query.shape[-1])
    future = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq + 1)
    weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
    return torch.einsum("bkgij,bkjd->bgkid", weights, value).flatten(1, 2)


# %% wrong: in proportion
# finding: no refusal
# Who finds a formula for the key head that never fails, and so never says that it makes no sense.
import math

import torch


def grouped(query, key, value):
    (heads, lq), (kv_heads, lk) = query.shape[1:3], key.shape[1:3]
    reads = torch.arange(heads) * kv_heads // heads
    scores = query @ key[:, reads].mT / math.sqrt(query.shape[-1])
    future = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq + 1)
    return scores.masked_fill(future, -math.inf).softmax(dim=-1) @ value[:, reads]


# %% wrong: error by accident
# finding: another kind of error
# Who lets unflatten complain.
import math

import torch


def grouped(query, key, value):
    lq, (kv_heads, lk) = query.shape[2], key.shape[1:3]
    scores = query.unflatten(1, (kv_heads, -1)) @ key[:, :, None].mT / math.sqrt(query.shape[-1])
    future = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq + 1)
    return (scores.masked_fill(future, -math.inf).softmax(dim=-1) @ value[:, :, None]).flatten(1, 2)
