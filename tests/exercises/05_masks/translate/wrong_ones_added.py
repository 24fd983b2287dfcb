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
