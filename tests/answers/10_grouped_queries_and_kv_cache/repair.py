# %% right: gather
# Sequences and beams as two axes, each sequence indexed by itself.
import torch
from torch.nn.functional import scaled_dot_product_attention


def continued(old, parents, new):
    sequences = zip(old.unflatten(0, parents.shape), parents, strict=True)
    return torch.cat((torch.cat([beams[parent] for beams, parent in sequences]), new), dim=2)


def repaired(query, key, value, keys, values, parents):
    keys, values = continued(keys, parents, key), continued(values, parents, value)
    return scaled_dot_product_attention(query, keys, values), keys, values


# %% right: rows
# Row numbers in the whole batch, used once for both.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, keys, values, parents):
    sequences, beams = parents.shape
    rows = (torch.arange(sequences)[:, None] * beams + parents).flatten()
    keys, values = torch.cat((keys[rows], key), dim=2), torch.cat((values[rows], value), dim=2)
    return scaled_dot_product_attention(query, keys, values), keys, values


# %% wrong: nothing
# finding: nothing changed
# Who renames things and runs it again.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    keys = keys[parents.flatten()]
    keys, values = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
    return mhalib.attention(query, keys, values), keys, values


# %% wrong: first sequence
# finding: always the first sequence
# Who remembers the values and tries it with one sequence.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    rows = parents.flatten()
    keys, values = torch.cat((keys[rows], key), dim=2), torch.cat((values[rows], value), dim=2)
    return mhalib.attention(query, keys, values), keys, values


# %% wrong: values
# finding: values stay behind
# Who finds the rows of the batch and stops.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    rows = (torch.arange(parents.shape[0])[:, None] * parents.shape[1] + parents).flatten()
    keys, values = torch.cat((keys[rows], key), dim=2), torch.cat((values, value), dim=2)
    return mhalib.attention(query, keys, values), keys, values


# %% wrong: after append
# finding: the new token moves too
# Who appends first and reorders the whole.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    rows = (torch.arange(parents.shape[0])[:, None] * parents.shape[1] + parents).flatten()
    keys, values = torch.cat((keys, key), dim=2)[rows], torch.cat((values, value), dim=2)[rows]
    return mhalib.attention(query, keys, values), keys, values


# %% wrong: scatter
# finding: children for parents
# Who puts the index on the left of the assignment.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    moved = [keys.clone(), values.clone()]
    for b in range(parents.shape[0]):
        for k in range(parents.shape[1]):
            row, parent = b * parents.shape[1] + k, b * parents.shape[1] + int(parents[b, k])
            moved[0][parent], moved[1][parent] = keys[row], values[row]
    keys, values = torch.cat((moved[0], key), dim=2), torch.cat((moved[1], value), dim=2)
    return mhalib.attention(query, keys, values), keys, values


# %% wrong: in place
# finding: one row after another
# Who saves memory by copying rows within the cache.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    for b in range(parents.shape[0]):
        for k in range(parents.shape[1]):
            row, parent = b * parents.shape[1] + k, b * parents.shape[1] + int(parents[b, k])
            keys[row], values[row] = keys[parent], values[parent]
    keys, values = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
    return mhalib.attention(query, keys, values), keys, values


# %% wrong: beams first
# finding: beams before sequences
# Who numbers the rows with the sequences varying fastest.
import torch

import mhalib


def repaired(query, key, value, keys, values, parents):
    rows = (parents * parents.shape[0] + torch.arange(parents.shape[0])[:, None]).flatten()
    keys, values = torch.cat((keys[rows], key), dim=2), torch.cat((values[rows], value), dim=2)
    return mhalib.attention(query, keys, values), keys, values
