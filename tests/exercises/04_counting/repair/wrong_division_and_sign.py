# finding: head_dim by division, and below 0
# Who knows about groups, and divides d_model by the heads.
def repaired(config, memory, sequences):
    head_dim = config["d_model"] // config["num_heads"]
    per_token = 2 * 2 * config["layers"] * config["num_kv_heads"] * head_dim
    return (memory - 2 * config["parameters"]) // per_token // sequences
