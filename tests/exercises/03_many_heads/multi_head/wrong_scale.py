# finding: scale of all heads together
# Who reads the size before the split and divides by it after.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    width = w_q.shape[1]
    query, key, value = ((x @ w).view(batch, length, num_heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / width**0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).flatten(2) @ w_o, weights
