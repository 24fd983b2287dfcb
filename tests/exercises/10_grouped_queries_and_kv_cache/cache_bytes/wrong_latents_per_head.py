# finding: latents in every head
# Who reads num_kv_heads = 128 in the config and gives each of them a latent.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * c["num_kv_heads"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * c["head_dim"] * seen * users * bits // 8
