# finding: scraps in and out
# Who asks view for the shape that attention wants, and again on the way back.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    query, key, value = ((x @ w).view(batch, num_heads, length, -1) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(dim=-1)
    return (weights @ value).view(batch, length, -1) @ w_o, weights
