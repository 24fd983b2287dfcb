# finding: no output projection
# Who believes that the concatenation combines the heads.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    query, key, value = ((x @ w).view(batch, length, num_heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).reshape(batch, length, -1), weights
