# %% right: converters
# By the library's converters, which name the interface.
import torch

from mhalib import masks


def translate(attention_mask):
    real = masks.from_huggingface(attention_mask)
    past = masks.causal(attention_mask.shape[1])
    return {
        "key_padding_mask": ~real.flatten(1),
        "attn_mask": masks.to_torch_mha(past),
        "added": masks.to_additive(past & real, torch.float32),
        "sdpa": past & real,
    }


# %% right: where
# Everything written with where and comparisons of positions.
import torch


def translate(attention_mask):
    place = torch.arange(attention_mask.shape[1])
    future = place[None, :] > place[:, None]
    padded = attention_mask == 0
    hidden = (future | padded[:, None, :])[:, None]
    return {
        "sdpa": torch.logical_not(hidden),
        "added": torch.where(hidden, torch.tensor(float("-inf")), torch.tensor(0.0)),
        "attn_mask": future,
        "key_padding_mask": padded,
    }


# %% wrong: one polarity
# finding: one polarity for everybody
# Who writes the mask once and hands it to every function of torch (PyTorch issue 27968).
import torch


def translate(attention_mask):
    B, L = attention_mask.shape
    real = attention_mask.bool()
    past = torch.ones(L, L, dtype=torch.bool).tril()
    keep = past & real[:, None, None, :]
    return {
        "sdpa": keep,
        "added": torch.zeros(B, 1, L, L).masked_fill(~keep, float("-inf")),
        "attn_mask": past,
        "key_padding_mask": real,
    }


# %% wrong: blocked everywhere
# finding: sdpa reads it like MultiheadAttention
# Who learned masks from nn.Transformer and moves to the fused function.
import torch


def translate(attention_mask):
    B, L = attention_mask.shape
    real = attention_mask.bool()
    past = torch.ones(L, L, dtype=torch.bool).tril()
    keep = past & real[:, None, None, :]
    return {
        "sdpa": ~keep,
        "added": torch.zeros(B, 1, L, L).masked_fill(~keep, float("-inf")),
        "attn_mask": ~past,
        "key_padding_mask": ~real,
    }


# %% wrong: lengths
# finding: counted instead of read
# Who trains with padding on the right, where a count of ones is enough.
import torch


def translate(attention_mask):
    B, L = attention_mask.shape
    real = torch.arange(L) < attention_mask.sum(dim=1, keepdim=True)
    past = torch.ones(L, L, dtype=torch.bool).tril()
    keep = past & real[:, None, None, :]
    return {
        "sdpa": keep,
        "added": torch.zeros(B, 1, L, L).masked_fill(~keep, float("-inf")),
        "attn_mask": ~past,
        "key_padding_mask": ~real,
    }


# %% wrong: or
# finding: or in the place of and
# Who reads "causal and padding" as a list of what is allowed.
import torch


def translate(attention_mask):
    B, L = attention_mask.shape
    real = attention_mask.bool()
    past = torch.ones(L, L, dtype=torch.bool).tril()
    keep = past | real[:, None, None, :]
    return {
        "sdpa": keep,
        "added": torch.zeros(B, 1, L, L).masked_fill(~keep, float("-inf")),
        "attn_mask": ~past,
        "key_padding_mask": ~real,
    }


# %% wrong: queries too
# finding: padded queries hidden too
# Who wants padded tokens out of the map altogether, rows and columns.
import torch


def translate(attention_mask):
    B, L = attention_mask.shape
    real = attention_mask.bool()
    past = torch.ones(L, L, dtype=torch.bool).tril()
    keep = past & real[:, None, None, :] & real[:, None, :, None]
    return {
        "sdpa": keep,
        "added": torch.zeros(B, 1, L, L).masked_fill(~keep, float("-inf")),
        "attn_mask": ~past,
        "key_padding_mask": ~real,
    }


# %% wrong: ones added
# finding: ones are added
# Who casts the mask to the dtype of the scores (PyTorch issue 136816).
import torch


def translate(attention_mask):
    L = attention_mask.shape[1]
    real = attention_mask.bool()
    past = torch.ones(L, L, dtype=torch.bool).tril()
    keep = past & real[:, None, None, :]
    return {
        "sdpa": keep,
        "added": keep.float(),
        "attn_mask": ~past,
        "key_padding_mask": ~real,
    }


# %% wrong: zero times infinity
# finding: zero times infinity
# Who takes the old formula (1 − mask) · −10000 and writes a better number.
import torch


def translate(attention_mask):
    L = attention_mask.shape[1]
    real = attention_mask.bool()
    past = torch.ones(L, L, dtype=torch.bool).tril()
    keep = past & real[:, None, None, :]
    return {
        "sdpa": keep,
        "added": (1 - keep.float()) * float("-inf"),
        "attn_mask": ~past,
        "key_padding_mask": ~real,
    }


# %% wrong: billion
# finding: minus a billion
# Who has always written −1e9.
import torch


def translate(attention_mask):
    L = attention_mask.shape[1]
    real = attention_mask.bool()
    past = torch.ones(L, L, dtype=torch.bool).tril()
    keep = past & real[:, None, None, :]
    return {
        "sdpa": keep,
        "added": (~keep).float() * -1e9,
        "attn_mask": ~past,
        "key_padding_mask": ~real,
    }


# %% wrong: integers
# finding: numbers for truth values
# Who subtracts the tokenizer's integers from 1.
import torch


def translate(attention_mask):
    B, L = attention_mask.shape
    real = attention_mask.bool()
    past = torch.ones(L, L, dtype=torch.bool).tril()
    keep = past & real[:, None, None, :]
    return {
        "sdpa": keep,
        "added": torch.zeros(B, 1, L, L).masked_fill(~keep, float("-inf")),
        "attn_mask": ~past,
        "key_padding_mask": 1 - attention_mask,
    }
