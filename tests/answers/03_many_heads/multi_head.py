# %% right: einsum
# Einsums with the matrices cut into heads, and a sum over the heads at the end.
import torch


def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    query, key, value = (torch.einsum("bld,dhc->bhlc", x, w.unflatten(1, (num_heads, -1))) for w in (w_q, w_k, w_v))
    scores = torch.einsum("bhic,bhjc->bhij", query, key) * query.shape[-1] ** -0.5
    weights = torch.softmax(scores, dim=3)
    return torch.einsum("bhij,bhjc,hcd->bid", weights, value, w_o.unflatten(0, (num_heads, -1))), weights


# %% right: folded
# Heads folded into the batch, as older programs do it.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    size = w_q.shape[1] // num_heads

    def fold(wide):
        return wide.view(batch, length, num_heads, size).permute(0, 2, 1, 3).reshape(batch * num_heads, length, size)

    query, key, value = fold(x @ w_q), fold(x @ w_k), fold(x @ w_v)
    weights = (query.bmm(key.transpose(1, 2)) / size**0.5).softmax(dim=-1)
    heads = weights.bmm(value).view(batch, num_heads, length, size)
    return heads.permute(0, 2, 1, 3).reshape(batch, length, -1) @ w_o, weights.view(batch, num_heads, length, length)


# %% right: loop
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


# %% wrong: averaged
# finding: weights averaged
# Who compares with torch's layer, which averages by default.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    query, key, value = ((x @ w).view(batch, length, num_heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).reshape(batch, length, -1) @ w_o, weights.mean(dim=1)


# %% wrong: no w o
# finding: no output projection
# Who believes that the concatenation combines the heads.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    query, key, value = ((x @ w).view(batch, length, num_heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).reshape(batch, length, -1), weights


# %% wrong: scraps
# finding: scraps in and out
# Who asks view for the shape that attention wants, and again on the way back.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    query, key, value = ((x @ w).view(batch, num_heads, length, -1) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ value).view(batch, length, -1) @ w_o, weights


# %% wrong: split
# finding: split without the transpose
# Who knows the way back by heart, and views straight into (B, H, L, D) on the way in.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    query, key, value = ((x @ w).view(batch, num_heads, length, -1) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).flatten(2) @ w_o, weights


# %% wrong: join
# finding: join without the transpose
# Who followed the error message of view and wrote reshape, on the wrong tensor.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    query, key, value = ((x @ w).view(batch, length, num_heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ value).reshape(batch, length, -1) @ w_o, weights


# %% wrong: interleaved
# finding: heads interleaved
# Who views the last axis as (D, H), since the product is the same.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    size = w_q.shape[1] // num_heads
    query, key, value = ((x @ w).view(batch, length, size, num_heads).permute(0, 3, 1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).flatten(2) @ w_o, weights


# %% wrong: sliced
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


# %% wrong: scale
# finding: scale of all heads together
# Who reads the size before the split and divides by it after.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    width = w_q.shape[1]
    query, key, value = ((x @ w).view(batch, length, num_heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / width**0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).flatten(2) @ w_o, weights


# %% wrong: division
# finding: head_dim by division
# Who takes d_model / num_heads for the definition of head_dim.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, d_model = x.shape
    query, key, value = ((x @ w).view(batch, length, num_heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / (d_model // num_heads) ** 0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).flatten(2) @ w_o, weights


# %% wrong: axis
# finding: softmax over the heads
# Who had the softmax over dimension 1 of (B, query, key), and added the heads in front of it.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    query, key, value = ((x @ w).view(batch, length, num_heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=1)
    return (weights @ value).transpose(1, 2).flatten(2) @ w_o, weights
