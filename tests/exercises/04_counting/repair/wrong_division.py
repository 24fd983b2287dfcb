# finding: head_dim by division
# Who divides because it is right for every Llama.
def repaired(config, memory, sequences):
    head_dim = config["d_model"] // config["num_heads"]
    per_token = 2 * 2 * config["layers"] * config["num_kv_heads"] * head_dim
    return max(0, memory - 2 * config["parameters"]) // per_token // sequences
