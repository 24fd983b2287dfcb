# finding: latents twice
# Who multiplies by two because it says keys and values.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return 2 * c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * c["head_dim"] * seen * users * bits // 8
