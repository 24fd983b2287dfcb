# %% right: layer by layer
# A loop over the layers.
def cache_bytes(config, tokens, users, bits):
    total = 0
    for layer in range(config["layers"]):
        kept = min(tokens, config["window"]) if layer < config["windowed_layers"] else tokens
        width = config["kv_rank"] + config["rope_dim"]
        if config["kv_rank"] == 0:
            width = 2 * config["num_kv_heads"] * config["head_dim"]
        total += kept * width
    return total * users * bits / 8


# %% right: two kinds
# Layers of two kinds, and latents apart.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        numbers = c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens
    else:
        seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
        numbers = 2 * c["num_kv_heads"] * c["head_dim"] * seen
    return numbers * users * bits // 8


# %% wrong: query heads
# finding: query heads
# Who uses the formula from before there were groups.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_heads"] * c["head_dim"] * seen * users * bits // 8


# %% wrong: keys alone
# finding: keys alone
# Who counts one tensor.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return c["num_kv_heads"] * c["head_dim"] * seen * users * bits // 8


# %% wrong: head size
# finding: head size from the width
# Who has learned that head_dim is d_model / num_heads.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * (c["d_model"] // c["num_heads"]) * seen * users * bits // 8


# %% wrong: no window
# finding: windows forgotten
# Who takes a window for a mask only.
def cache_bytes(config, tokens, users, bits):
    width = config["kv_rank"] + config["rope_dim"] or 2 * config["num_kv_heads"] * config["head_dim"]
    return config["layers"] * width * tokens * users * bits // 8


# %% wrong: all windows
# finding: a window in every layer
# Who sees a window in the config and does not ask in which layers.
def cache_bytes(config, tokens, users, bits):
    width = config["kv_rank"] + config["rope_dim"] or 2 * config["num_kv_heads"] * config["head_dim"]
    kept = min(tokens, config["window"] or tokens)
    return config["layers"] * width * kept * users * bits // 8


# %% wrong: no latents
# finding: heads in the place of latents
# Who counts every model by its heads.
def cache_bytes(config, tokens, users, bits):
    c = config
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * c["head_dim"] * seen * users * bits // 8


# %% wrong: latents twice
# finding: latents twice
# Who multiplies by two because it says keys and values.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return 2 * c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * c["head_dim"] * seen * users * bits // 8


# %% wrong: no rotary
# finding: the rotary part forgotten
# Who remembers the latent and forgets the key beside it.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * c["kv_rank"] * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * c["head_dim"] * seen * users * bits // 8


# %% wrong: latents per head
# finding: latents in every head
# Who reads num_kv_heads = 128 in the config and gives each of them a latent.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * c["num_kv_heads"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits // 8
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * c["head_dim"] * seen * users * bits // 8


# %% wrong: bits
# finding: bits taken for bytes
# Who puts the last number in as it comes.
def cache_bytes(config, tokens, users, bits):
    c = config
    if c["kv_rank"]:
        return c["layers"] * (c["kv_rank"] + c["rope_dim"]) * tokens * users * bits
    seen = c["windowed_layers"] * min(tokens, c["window"]) + (c["layers"] - c["windowed_layers"]) * tokens
    return 2 * c["num_kv_heads"] * c["head_dim"] * seen * users * bits
