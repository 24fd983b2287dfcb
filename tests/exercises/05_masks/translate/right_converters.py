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
