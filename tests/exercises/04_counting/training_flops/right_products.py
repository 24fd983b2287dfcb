# Product by product, and three times each.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    def product(rows, inner, columns):
        return 2 * rows * inner * columns

    forward = 2 * product(length, d_model, num_heads * head_dim)
    forward += 2 * product(length, d_model, num_kv_heads * head_dim)
    keys_seen = range(1, length + 1) if skips else [length] * length
    forward += num_heads * sum(product(1, head_dim, keys) + product(1, keys, head_dim) for keys in keys_seen)
    return 3 * forward
