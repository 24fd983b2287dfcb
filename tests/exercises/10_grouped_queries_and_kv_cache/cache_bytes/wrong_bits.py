# finding: bits taken for bytes
# Who puts the last number in as it comes.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * c["head_dim"] * seen * users * bits
