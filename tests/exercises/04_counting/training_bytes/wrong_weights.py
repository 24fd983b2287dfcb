# finding: the weights alone
# Who sizes a card for training by what the model takes to run.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept
