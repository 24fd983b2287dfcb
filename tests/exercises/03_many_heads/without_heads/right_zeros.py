# Zeros in the channels of the concatenation that belong to these heads.
import torch


def without_heads(heads, w_o, b_o, off):
    size = heads.shape[3]
    joined = torch.cat(list(heads.unbind(dim=1)), dim=-1)
    keep = torch.ones(joined.shape[-1], dtype=joined.dtype)
    for h in off:
        keep[h * size : (h + 1) * size] = 0
    return (joined * keep) @ w_o + b_o
