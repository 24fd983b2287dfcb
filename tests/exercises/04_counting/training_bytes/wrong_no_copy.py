# finding: one of the five forgotten
# Who counts both moments of Adam and not the weights that it updates.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept
