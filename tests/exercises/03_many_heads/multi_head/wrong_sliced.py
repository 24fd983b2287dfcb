# finding: x is sliced
# Who takes the usual drawing at its word: 512 channels are split into 8 times 64.
import torch


def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    parts = x.chunk(num_heads, dim=-1)
    size = w_q.shape[1] // num_heads
    outputs, patterns = [], []
    for h, part in enumerate(parts):
        rows, columns = slice(h * part.shape[-1], (h + 1) * part.shape[-1]), slice(h * size, (h + 1) * size)
        query, key, value = (part @ w[rows, columns] for w in (w_q, w_k, w_v))
        patterns.append((query @ key.mT / size**0.5).softmax(dim=-1))
        outputs.append(patterns[-1] @ value)
    return torch.cat(outputs, dim=-1) @ w_o, torch.stack(patterns, dim=1)
