# Layers of two kinds, and latents apart.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        numbers = c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens
    else:
        seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
        numbers = 2 * c["num_kv_heads"] * c["head_dim"] * seen
    return numbers * users * bits // 8
