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
