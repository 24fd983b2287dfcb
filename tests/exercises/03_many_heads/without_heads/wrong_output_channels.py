# finding: output channels
# Who thinks that the output of the layer is still the heads side by side.
import torch


def without_heads(heads, w_o, b_o, off):
    output, size = heads.transpose(1, 2).flatten(2) @ w_o + b_o, heads.shape[3]
    keep = torch.ones(output.shape[-1], dtype=output.dtype)
    for h in off:
        keep[h * size : (h + 1) * size] = 0
    return output * keep
