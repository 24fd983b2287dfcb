# %% right: diagonals
# Both diagonals moved, and the window counts its own key.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(lk - lq)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq - window + 1)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)


# %% right: last rows
# The square mask of the whole sequence, and its last rows.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    square = torch.ones(key.shape[-2], key.shape[-2], dtype=torch.bool)
    square = square.tril() & square.triu(1 - window)
    return scaled_dot_product_attention(query, key, value, attn_mask=square[-query.shape[-2] :])


# %% right: places
# Distances between places, and the softmax written out.
import torch


def repaired(query, key, value, window):
    lk = key.shape[-2]
    distance = torch.arange(lk)[-query.shape[-2] :, None] - torch.arange(lk)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    scores = scores.masked_fill((distance < 0) | (distance >= window), float("-inf"))
    return scores.softmax(dim=-1) @ value


# %% wrong: nothing
# finding: nothing changed
# Who runs it on a prompt shorter than the window, where it is right.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(0)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(-window)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)


# %% wrong: width
# finding: the window is still one key too wide
# Who has found the corner, as decoding shows it, and stops.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(lk - lq)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq - window)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)


# %% wrong: corner
# finding: the corner is still wrong
# Who has counted the keys of a row, in a square mask.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(0)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(1 - window)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)


# %% wrong: one edge
# finding: only the future was moved
# Who moves the diagonal that hides the future and forgets the other one.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(lk - lq)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(1 - window)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)


# %% wrong: one edge and width
# finding: only the future was moved, and the width
# Who copies the diagonal of a causal mask with a cache and leaves the window alone.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(lk - lq)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(-window)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)


# %% wrong: other way
# finding: moved the wrong way
# Who guesses the sign of the diagonal and tests a square mask.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(lq - lk)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(lq - lk - window + 1)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)


# %% wrong: too few
# finding: one key too few
# Who corrects an error of one by two.
import torch
from torch.nn.functional import scaled_dot_product_attention


def repaired(query, key, value, window):
    lq, lk = query.shape[-2], key.shape[-2]
    past = torch.ones(lq, lk, dtype=torch.bool).tril(lk - lq)
    near = torch.ones(lq, lk, dtype=torch.bool).triu(lk - lq - window + 2)
    return scaled_dot_product_attention(query, key, value, attn_mask=past & near)
