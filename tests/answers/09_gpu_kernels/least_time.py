# %% right: ridge
# Intensity against the ridge.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    operations = 4 * batch * num_heads * queries * keys * head_dim
    moved = number_bytes * batch * head_dim * (2 * num_heads * queries + 2 * num_kv_heads * keys)
    if operations / moved < tflops / tbps:
        return 1e6 * moved / (tbps * 1e12), "memory"
    return 1e6 * operations / (tflops * 1e12), "arithmetic"


# %% right: two times
# Both times, and the longer one.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    operations = 2 * (2 * batch * num_heads * queries * keys * head_dim)
    numbers = 2 * batch * head_dim * (num_heads * queries + num_kv_heads * keys)
    times = {"memory": numbers * number_bytes / tbps / 1e6, "arithmetic": operations / tflops / 1e6}
    limit = max(times, key=times.get)
    return times[limit], limit


# %% wrong: sum
# finding: one after the other
# Who adds, as one adds the steps of a recipe.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 4 * batch * num_heads * queries * keys * head_dim / tflops / 1e6
    memory = 2 * batch * head_dim * (num_heads * queries + num_kv_heads * keys) * number_bytes / tbps / 1e6
    return arithmetic + memory, "memory" if memory > arithmetic else "arithmetic"


# %% wrong: shorter
# finding: the shorter time
# Who hears "least" and takes the least.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 4 * batch * num_heads * queries * keys * head_dim / tflops / 1e6
    memory = 2 * batch * head_dim * (num_heads * queries + num_kv_heads * keys) * number_bytes / tbps / 1e6
    return min(arithmetic, memory), "memory" if memory > arithmetic else "arithmetic"


# %% wrong: half
# finding: half of the operations
# Who counts multiply-adds.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 2 * batch * num_heads * queries * keys * head_dim / tflops / 1e6
    memory = 2 * batch * head_dim * (num_heads * queries + num_kv_heads * keys) * number_bytes / tbps / 1e6
    return max(arithmetic, memory), "memory" if memory > arithmetic else "arithmetic"


# %% wrong: repeated keys
# finding: keys once for each query head
# Who repeats the keys in mind.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 4 * batch * num_heads * queries * keys * head_dim / tflops / 1e6
    memory = 2 * batch * head_dim * num_heads * (queries + keys) * number_bytes / tbps / 1e6
    return max(arithmetic, memory), "memory" if memory > arithmetic else "arithmetic"


# %% wrong: fewer products
# finding: operations by key heads
# Who believes that fewer key heads are less work.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 4 * batch * num_kv_heads * queries * keys * head_dim / tflops / 1e6
    memory = 2 * batch * head_dim * (num_heads * queries + num_kv_heads * keys) * number_bytes / tbps / 1e6
    return max(arithmetic, memory), "memory" if memory > arithmetic else "arithmetic"


# %% wrong: no values
# finding: keys without values
# Who reads what the scores need.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 4 * batch * num_heads * queries * keys * head_dim / tflops / 1e6
    memory = batch * head_dim * (2 * num_heads * queries + num_kv_heads * keys) * number_bytes / tbps / 1e6
    return max(arithmetic, memory), "memory" if memory > arithmetic else "arithmetic"


# %% wrong: cache only
# finding: keys and values alone
# Who comes from decoding, where the cache is all.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 4 * batch * num_heads * queries * keys * head_dim / tflops / 1e6
    memory = 2 * batch * head_dim * num_kv_heads * keys * number_bytes / tbps / 1e6
    return max(arithmetic, memory), "memory" if memory > arithmetic else "arithmetic"


# %% wrong: one sequence
# finding: one sequence's bytes
# Who believes that a batch shares its cache as it shares the weights.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 4 * batch * num_heads * queries * keys * head_dim / tflops / 1e6
    memory = 2 * head_dim * (num_heads * queries + num_kv_heads * keys) * number_bytes / tbps / 1e6
    return max(arithmetic, memory), "memory" if memory > arithmetic else "arithmetic"


# %% wrong: name
# finding: the limit by its name
# Who calls a kernel memory-bound when memory is quick.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 4 * batch * num_heads * queries * keys * head_dim / tflops / 1e6
    memory = 2 * batch * head_dim * (num_heads * queries + num_kv_heads * keys) * number_bytes / tbps / 1e6
    return max(arithmetic, memory), "memory" if memory < arithmetic else "arithmetic"


# %% wrong: counts
# finding: operations against bytes
# Who compares two counts of different things.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    operations = 4 * batch * num_heads * queries * keys * head_dim
    moved = 2 * batch * head_dim * (num_heads * queries + num_kv_heads * keys) * number_bytes
    limit = "arithmetic" if operations > moved else "memory"
    return max(operations / tflops, moved / tbps) / 1e6, limit
