# finding: head size from the width
# Who has learned that head_dim is d_model / num_heads.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * (c["d_model"] // c["num_heads"]) * seen * users * bits // 8
