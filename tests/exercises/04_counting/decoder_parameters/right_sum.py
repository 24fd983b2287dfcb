# Matrix by matrix, as one reads a configuration.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    inner, inner_kv = num_heads * head_dim, num_kv_heads * head_dim
    matrices = [(d_model, inner), (d_model, inner_kv), (d_model, inner_kv), (inner, d_model)]
    matrices += [(d_model, d_ff), (d_model, d_ff), (d_ff, d_model)]
    total = sum(rows * columns for rows, columns in matrices) + 2 * d_model
    if qkv_bias:
        total += sum(columns for _, columns in matrices[:3])
    total = total * layers + d_model
    for _ in range(1 if tied else 2):
        total += vocab * d_model
    return total
