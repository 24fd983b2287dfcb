# finding: biases as wide as the input
# Who remembers that biases make 4 · d_model, and takes one away.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += 3 * d_model
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables
