# finding: only 0 is right
# Who tries one large model on one small card, and is content.
def repaired(config, memory, sequences):
    head_dim = config["d_model"] // config["num_heads"]
    per_token = 2 * 2 * config["layers"] * config["num_heads"] * head_dim
    return max(0, memory - 2 * config["parameters"]) // per_token // sequences
