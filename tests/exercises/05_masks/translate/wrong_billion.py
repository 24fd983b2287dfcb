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
