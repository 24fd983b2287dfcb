# finding: one layer
# Who thinks that a layer frees its memory when the next one begins.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + sequences * num_heads * kept
