# finding: the rotary part forgotten
# Who remembers the latent and forgets the key beside it.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * c["kv_rank"] * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * c["head_dim"] * seen * users * bits // 8
