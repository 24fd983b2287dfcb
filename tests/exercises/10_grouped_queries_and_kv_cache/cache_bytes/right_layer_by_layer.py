# A loop over the layers.
def cache_bytes(config, tokens, users, bits):
    total = 0
    for layer in range(config["layers"]):
        kept = min(tokens, config["window"]) if layer < config["windowed_layers"] else tokens
        width = config["kv_rank"] + config["rope_dim"]
        if config["kv_rank"] == 0:
            width = 2 * config["num_kv_heads"] * config["head_dim"]
        total += kept * width
    return total * users * bits / 8
