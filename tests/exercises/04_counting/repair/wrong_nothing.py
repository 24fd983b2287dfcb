# finding: nothing changed
# Who writes the same more briefly: key and value of d_model numbers each.
def repaired(config, memory, sequences):
    per_token = 2 * 2 * config["layers"] * (config["d_model"] // config["num_heads"]) * config["num_heads"]
    return (memory - 2 * config["parameters"]) // (per_token * sequences)
