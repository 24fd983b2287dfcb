# Both times, and the longer one.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    operations = 2 * (2 * batch * num_heads * queries * keys * head_dim)
    numbers = 2 * batch * head_dim * (num_heads * queries + num_kv_heads * keys)
    times = {"memory": numbers * number_bytes / tbps / 1e6, "arithmetic": operations / tflops / 1e6}
    limit = max(times, key=times.get)
    return times[limit], limit
