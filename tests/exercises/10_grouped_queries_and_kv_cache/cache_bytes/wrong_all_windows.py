# finding: a window in every layer
# Who sees a window in the config and does not ask in which layers.
def cache_bytes(config, tokens, users, bits):
    width = config["kv_rank"] + config["rope_dim"] or 2 * config["num_kv_heads"] * config["head_dim"]
    kept = min(tokens, config["window"] or tokens)
    return config["layers"] * width * kept * users * bits // 8
