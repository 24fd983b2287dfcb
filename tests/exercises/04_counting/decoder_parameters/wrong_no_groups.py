# finding: no groups
# Who knows that attention has four equal matrices.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 4 * d_model * num_heads * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_heads) * head_dim
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables
