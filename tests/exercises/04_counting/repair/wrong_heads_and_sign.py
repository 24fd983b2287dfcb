# finding: query heads, and below 0
# Who reads head_dim where there is one, as LMCache issue 688 asks, and stops.
def repaired(config, memory, sequences):
    head_dim = config["head_dim"]
    per_token = 2 * 2 * config["layers"] * config["num_heads"] * head_dim
    return (memory - 2 * config["parameters"]) // per_token // sequences
