# Everything widened to 64 bits before anything is multiplied.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch_head, number, strides = (x.long() for x in (batch_head, number, strides))
    key_head = batch_head % num_heads * num_kv_heads // num_heads
    rows, channels = number * block + torch.arange(block), torch.arange(block_d)
    start = (torch.stack((batch_head // num_heads, key_head)) * strides[:2]).sum()
    mask = torch.outer(rows < length, channels < head_dim)
    return start + rows[:, None] * strides[2] + channels * strides[3], mask
