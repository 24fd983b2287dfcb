# finding: query heads
# Who takes num_heads for the only number of heads, as a script in vLLM PR 29736 did.
def repaired(config, memory, sequences):
    head_dim = config["head_dim"]
    per_token = 2 * 2 * config["layers"] * config["num_heads"] * head_dim
    return max(0, memory - 2 * config["parameters"]) // per_token // sequences
