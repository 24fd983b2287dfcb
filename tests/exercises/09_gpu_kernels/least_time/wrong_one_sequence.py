# finding: one sequence's bytes
# Who believes that a batch shares its cache as it shares the weights.
def least_time(batch, queries, keys, num_heads, num_kv_heads, head_dim, number_bytes, tflops, tbps):
    arithmetic = 4 * batch * num_heads * queries * keys * head_dim / tflops / 1e6
    memory = 2 * head_dim * (num_heads * queries + num_kv_heads * keys) * number_bytes / tbps / 1e6
    return max(arithmetic, memory), "memory" if memory > arithmetic else "arithmetic"
