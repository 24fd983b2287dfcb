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
