# Intensity against the ridge.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    operations = 4 * batch * num_heads * queries * keys * head_dim
    moved = number_bytes * batch * head_dim * (2 * num_heads * queries + 2 * num_kv_heads * keys)
    if operations / moved < tflops / tbps:
        return 1e6 * moved / (tbps * 1e12), "memory"
    return 1e6 * operations / (tflops * 1e12), "arithmetic"
