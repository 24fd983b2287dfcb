# finding: heads interleaved
# Who views the last axis as (D, H), since the product is the same.
def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    size = w_q.shape[1] // num_heads
    query, key, value = ((x @ w).view(batch, length, size, num_heads).permute(0, 3, 1, 2) for w in (w_q, w_k, w_v))
    weights = (query @ key.mT / size**0.5).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).flatten(2) @ w_o, weights
