# finding: a key head for every query head
# Who writes the addresses of the keys like those of the queries.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch_head, number, strides = batch_head.long(), number.long(), strides.long()
    rows, channels = number * block + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch_head // num_heads * strides[0] + batch_head % num_heads * strides[1]
    return start + rows * strides[2] + channels * strides[3], (rows < length) & (channels < head_dim)
