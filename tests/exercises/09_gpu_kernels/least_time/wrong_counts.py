# finding: operations against bytes
# Who compares two counts of different things.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    operations = 4 * batch * num_heads * queries * keys * head_dim
    moved = 2 * batch * head_dim * (num_heads * queries + num_kv_heads * keys) * number_bytes
    limit = "arithmetic" if operations > moved else "memory"
    return max(operations / tflops, moved / tbps) / 1e6, limit
