# Python's integers, which have as many bits as they need.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch, head = divmod(int(batch_head), num_heads)
    of_batch, of_head, of_row, of_channel = strides.tolist()
    rows = int(number) * block + torch.arange(block)[:, None]
    channels = torch.arange(block_d)[None, :]
    start = batch * of_batch + head // (num_heads // num_kv_heads) * of_head
    return start + rows * of_row + channels * of_channel, (rows < length) & (channels < head_dim)
