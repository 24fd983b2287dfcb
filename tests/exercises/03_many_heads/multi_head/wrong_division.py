# finding: head_dim by division
# Who takes d_model / num_heads for the definition of head_dim.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, d_model = x.shape
    query, key, value = ((x @ w).view(batch, length, num_heads, -1).transpose(1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / (d_model // num_heads) ** 0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).flatten(2) @ w_o, weights
