# Layer by layer.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    total = 2 * parameters + 2 * parameters + 3 * 4 * parameters
    for _ in range(layers):
        rows = sequences * num_heads * length
        total += 4 * rows if tiled else 2 * rows * length
    return total
