# finding: one number after another
# Who reads the sizes and trusts that the numbers lie in their order.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch, head = divmod(int(batch_head), num_heads)
    key_head = head // (num_heads // num_kv_heads)
    rows = int(number) * block + torch.arange(block)[:, None]
    channels = torch.arange(block_d)[None, :]
    offsets = ((batch * num_kv_heads + key_head) * length + rows) * head_dim + channels
    return offsets, (rows < length) & (channels < head_dim)
