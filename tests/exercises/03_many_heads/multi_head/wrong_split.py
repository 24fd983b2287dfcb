# finding: split without the transpose
# Who knows the way back by heart, and views straight into (B, H, L, D) on the way in.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    query, key, value = ((x @ w).view(batch, num_heads, length, -1) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).flatten(2) @ w_o, weights
