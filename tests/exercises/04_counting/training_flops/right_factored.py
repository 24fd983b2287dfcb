# Everything over one common factor.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    visible = (length + 1) / 2 if skips else length
    return 12 * length * head_dim * (d_model * (num_heads + num_kv_heads) + visible * num_heads)
