# finding: split by the key heads
# Who thinks of the tensor that is read and forgets what the program id counts.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch_head, number, strides = batch_head.long(), number.long(), strides.long()
    rows, channels = number * block + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch_head // num_kv_heads * strides[0] + batch_head % num_kv_heads * strides[1]
    return start + rows * strides[2] + channels * strides[3], (rows < length) & (channels < head_dim)
