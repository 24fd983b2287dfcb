# %% right: loop
# Layer by layer.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    total = 2 * parameters + 2 * parameters + 3 * 4 * parameters
    for _ in range(layers):
        rows = sequences * num_heads * length
        total += 4 * rows if tiled else 2 * rows * length
    return total


# %% right: tensors
# By the sizes of tensors without storage.
import torch


def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    def size(*shape, dtype):
        return torch.empty(shape, dtype=dtype, device="meta").nbytes

    state = 2 * size(parameters, dtype=torch.bfloat16) + 3 * size(parameters, dtype=torch.float32)
    if tiled:
        return state + layers * size(sequences, num_heads, length, dtype=torch.float32)
    return state + layers * size(sequences, num_heads, length, length, dtype=torch.bfloat16)


# %% wrong: weights
# finding: the weights alone
# Who sizes a card for training by what the model takes to run.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept


# %% wrong: two bytes
# finding: all in 2 bytes
# Who hears half precision and halves everything.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 2 + 2
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept


# %% wrong: no copy
# finding: one of the five forgotten
# Who counts both moments of Adam and not the weights that it updates.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept


# %% wrong: one layer
# finding: one layer
# Who thinks that a layer frees its memory when the next one begins.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + sequences * num_heads * kept


# %% wrong: key heads
# finding: key heads
# Who expects grouping to shrink the scores.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + layers * sequences * num_kv_heads * kept


# %% wrong: one sequence
# finding: one sequence
# Who forgets the batch.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 4 * length if tiled else 2 * length**2
    return per_parameter * parameters + layers * num_heads * kept


# %% wrong: tiles nothing
# finding: a tiled kernel keeps nothing
# Who has read that it needs no memory for the scores.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 0 if tiled else 2 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept


# %% wrong: tiles all
# finding: tiles make no difference
# Who thinks that tiles change the speed and not what is kept.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 2 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept


# %% wrong: four bytes
# finding: scores kept in 4 bytes
# Who knows that a softmax is computed in float32.
def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    per_parameter = 2 + 2 + 4 + 4 + 4
    kept = 4 * length if tiled else 4 * length**2
    return per_parameter * parameters + layers * sequences * num_heads * kept
