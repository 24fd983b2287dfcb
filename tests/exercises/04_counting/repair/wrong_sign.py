# finding: below 0
# Who never tries a model that does not fit.
def repaired(config, memory, sequences):
    head_dim = config["head_dim"]
    per_token = 2 * 2 * config["layers"] * config["num_kv_heads"] * head_dim
    return (memory - 2 * config["parameters"]) // per_token // sequences
