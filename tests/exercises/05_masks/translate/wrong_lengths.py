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
