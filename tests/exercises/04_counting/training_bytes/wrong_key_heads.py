# finding: key heads
# Who expects grouping to shrink the scores.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + layers * sequences * num_kv_heads * kept
