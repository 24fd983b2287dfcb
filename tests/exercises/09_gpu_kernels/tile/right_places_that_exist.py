# Where nothing is loaded the address is 0, which is allowed.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    offsets = torch.zeros(block, block_d, dtype=torch.int64)
    mask = torch.zeros(block, block_d, dtype=torch.bool)
    group, steps = num_heads // num_kv_heads, strides.tolist()
    batch, head = int(batch_head) // num_heads, int(batch_head) % num_heads
    for i in range(block):
        row = int(number) * block + i
        if row < length:
            start = batch * steps[0] + head // group * steps[1] + row * steps[2]
            offsets[i, :head_dim] = start + torch.arange(head_dim) * steps[3]
            mask[i, :head_dim] = True
    return offsets, mask
