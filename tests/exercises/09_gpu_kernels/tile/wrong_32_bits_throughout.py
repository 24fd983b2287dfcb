# finding: 32 bits
# Who computes in 32 bits, as a kernel does unless told otherwise, and widens the result.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    key_head = batch_head % num_heads // (num_heads // num_kv_heads)
    rows = number * block + torch.arange(block, dtype=torch.int32)[:, None]
    channels = torch.arange(block_d, dtype=torch.int32)[None, :]
    start = batch_head // num_heads * strides[0] + key_head * strides[1]
    offsets = start + rows * strides[2] + channels * strides[3]
    return offsets.long(), (rows < length) & (channels < head_dim)
