# finding: 32 bits
# Who multiplies what came in as it came in.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch, head = batch_head // num_heads, batch_head % num_heads
    key_head = head // (num_heads // num_kv_heads)
    rows = number * block + torch.arange(block)[:, None]
    channels = torch.arange(block_d)[None, :]
    start = batch * strides[0] + key_head * strides[1]
    return start + rows * strides[2] + channels * strides[3], (rows < length) & (channels < head_dim)
