# A loop over the heads, each with its columns of the matrices.
import torch


def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    size = w_q.shape[1] // num_heads
    outputs, patterns = [], []
    for h in range(num_heads):
        own = slice(h * size, (h + 1) * size)
        weights = (x @ w_q[:, own] @ (x @ w_k[:, own]).mT / size**0.5).softmax(dim=-1)
        outputs.append(weights @ (x @ w_v[:, own]))
        patterns.append(weights)
    return torch.cat(outputs, dim=-1) @ w_o, torch.stack(patterns, dim=1)
