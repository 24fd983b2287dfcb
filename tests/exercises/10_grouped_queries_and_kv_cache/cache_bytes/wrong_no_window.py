# finding: windows forgotten
# Who takes a window for a mask only.
def cache_bytes(config, tokens, users, bits):
    width = config["kv_rank"] + config["rope_dim"] or 2 * config["num_kv_heads"] * config["head_dim"]
    return config["layers"] * width * tokens * users * bits // 8
