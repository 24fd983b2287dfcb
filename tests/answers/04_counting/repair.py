# %% right: library
# With the count of the library.
from mhalib import counting


def repaired(config, memory, sequences):
    one = counting.kv_cache_bytes(
        config["layers"], config["num_kv_heads"], config["head_dim"], tokens=1, batch_size=sequences
    )
    return max((memory - config["parameters"] * 2) // one, 0)


# %% right: named
# Keys and values named apart, room that does not fall below nothing.
def repaired(config, memory, sequences):
    numbers = config["num_kv_heads"] * config["head_dim"] * config["layers"]
    keys = values = 2 * numbers
    room = memory - 2 * config["parameters"]
    return room // ((keys + values) * sequences) if room > 0 else 0


# %% wrong: nothing
# finding: nothing changed
# Who writes the same more briefly: key and value of d_model numbers each.
def repaired(config, memory, sequences):
    per_token = 2 * 2 * config["layers"] * (config["d_model"] // config["num_heads"]) * config["num_heads"]
    return (memory - 2 * config["parameters"]) // (per_token * sequences)


# %% wrong: only zero
# finding: only 0 is right
# Who tries one large model on one small card, and is content.
def repaired(config, memory, sequences):
    head_dim = config["d_model"] // config["num_heads"]
    per_token = 2 * 2 * config["layers"] * config["num_heads"] * head_dim
    return max(0, memory - 2 * config["parameters"]) // per_token // sequences


# %% wrong: heads and sign
# finding: query heads, and below 0
# Who reads head_dim where there is one, as LMCache issue 688 asks, and stops.
def repaired(config, memory, sequences):
    head_dim = config["head_dim"]
    per_token = 2 * 2 * config["layers"] * config["num_heads"] * head_dim
    return (memory - 2 * config["parameters"]) // per_token // sequences


# %% wrong: division and sign
# finding: head_dim by division, and below 0
# Who knows about groups, and divides d_model by the heads.
def repaired(config, memory, sequences):
    head_dim = config["d_model"] // config["num_heads"]
    per_token = 2 * 2 * config["layers"] * config["num_kv_heads"] * head_dim
    return (memory - 2 * config["parameters"]) // per_token // sequences


# %% wrong: heads
# finding: query heads
# Who takes num_heads for the only number of heads, as a script in vLLM PR 29736 did.
def repaired(config, memory, sequences):
    head_dim = config["head_dim"]
    per_token = 2 * 2 * config["layers"] * config["num_heads"] * head_dim
    return max(0, memory - 2 * config["parameters"]) // per_token // sequences


# %% wrong: division
# finding: head_dim by division
# Who divides because it is right for every Llama.
def repaired(config, memory, sequences):
    head_dim = config["d_model"] // config["num_heads"]
    per_token = 2 * 2 * config["layers"] * config["num_kv_heads"] * head_dim
    return max(0, memory - 2 * config["parameters"]) // per_token // sequences


# %% wrong: sign
# finding: below 0
# Who never tries a model that does not fit.
def repaired(config, memory, sequences):
    head_dim = config["head_dim"]
    per_token = 2 * 2 * config["layers"] * config["num_kv_heads"] * head_dim
    return (memory - 2 * config["parameters"]) // per_token // sequences
