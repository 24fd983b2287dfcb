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
