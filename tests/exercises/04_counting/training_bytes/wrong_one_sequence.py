# finding: one sequence
# Who forgets the batch.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + layers * num_heads * kept
