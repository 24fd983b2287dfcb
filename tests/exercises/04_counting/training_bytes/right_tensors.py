# By the sizes of tensors without storage.
import torch


def training_bytes(parameters, layers, num_heads, num_kv_heads, sequences, length, tiled):
    def size(*shape, dtype):
        return torch.empty(shape, dtype=dtype, device="meta").nbytes

    state = 2 * size(parameters, dtype=torch.bfloat16) + 3 * size(parameters, dtype=torch.float32)
    if tiled:
        return state + layers * size(sequences, num_heads, length, dtype=torch.float32)
    return state + layers * size(sequences, num_heads, length, length, dtype=torch.bfloat16)
