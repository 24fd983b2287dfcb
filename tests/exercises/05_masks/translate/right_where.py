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
