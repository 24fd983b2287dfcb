# finding: tiles make no difference
# Who thinks that tiles change the speed and not what is kept.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 2 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept
