# finding: sequence and head exchanged
# Who takes the remainder for the sequence.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch_head, number, strides = batch_head.long(), number.long(), strides.long()
    rows, channels = number * block + torch.arange(block)[:, None], torch.arange(block_d)
    key_head = batch_head // num_heads // (num_heads // num_kv_heads)
    start = batch_head % num_heads * strides[0] + key_head * strides[1]
    return start + rows * strides[2] + channels * strides[3], (rows < length) & (channels < head_dim)
