# finding: one row too many
# Who counts from 1 when it comes to the end.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch, head = divmod(int(batch_head), num_heads)
    steps = strides.tolist()
    rows, channels = int(number) * block + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch * steps[0] + head // (num_heads // num_kv_heads) * steps[1]
    return start + rows * steps[2] + channels * steps[3], (rows <= length) & (channels <= head_dim)
