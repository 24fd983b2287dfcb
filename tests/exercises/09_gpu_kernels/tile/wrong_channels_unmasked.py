# finding: channels unmasked
# Who fences the rows, and has only met heads whose size is a power of two.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch, head = divmod(int(batch_head), num_heads)
    steps = strides.tolist()
    rows, channels = int(number) * block + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch * steps[0] + head // (num_heads // num_kv_heads) * steps[1]
    return start + rows * steps[2] + channels * steps[3], (rows < length).expand(block, block_d)
