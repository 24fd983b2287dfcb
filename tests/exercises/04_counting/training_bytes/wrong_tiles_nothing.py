# finding: a tiled kernel keeps nothing
# Who has read that it needs no memory for the scores.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 0 if tiled else 2 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept
