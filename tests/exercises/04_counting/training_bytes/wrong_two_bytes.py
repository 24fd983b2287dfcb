# finding: all in 2 bytes
# Who hears half precision and halves everything.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 2 + 2
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept
