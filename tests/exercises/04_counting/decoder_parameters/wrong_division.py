# finding: head_dim by division
# Who computes the size of a head and does not read it.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    head_dim = d_model // num_heads
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_kv_heads) * head_dim
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables
