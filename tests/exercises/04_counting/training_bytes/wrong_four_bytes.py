# finding: scores kept in 4 bytes
# Who knows that a softmax is computed in float32.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 4 * length if tiled else 4 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept
