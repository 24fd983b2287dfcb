# finding: query heads
# Who uses the formula from before there were groups.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_heads"] * c["head_dim"] * seen * users * bits // 8
