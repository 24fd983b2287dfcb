# Keys and values named apart, room that does not fall below nothing.
def repaired(config, memory, sequences):
    numbers = config["num_kv_heads"] * config["head_dim"] * config["layers"]
    keys = values = 2 * numbers
    room = memory - 2 * config["parameters"]
    return room // ((keys + values) * sequences) if room > 0 else 0
