# finding: a bias on the output matrix
# Who reads a switch for biases as a switch for all of them.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_kv_heads) * head_dim + d_model
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables
