# finding: the limit by its name
# Who calls a kernel memory-bound when memory is quick.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 4 * batch * num_heads * queries * keys * head_dim / tflops / 1e6
    memory = 2 * batch * head_dim * (num_heads * queries + num_kv_heads * keys) * number_bytes / tbps / 1e6
    return max(arithmetic, memory), "memory" if memory < arithmetic else "arithmetic"
