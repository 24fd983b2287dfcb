# finding: heads in the place of latents
# Who counts every model by its heads.
def cache_bytes(config, tokens, users, bits):
    c = config
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * c["head_dim"] * seen * users * bits // 8
