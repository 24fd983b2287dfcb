# %% right: places that exist
# Where nothing is loaded the address is 0, which is allowed.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    offsets = torch.zeros(block, block_d, dtype=torch.int64)
    mask = torch.zeros(block, block_d, dtype=torch.bool)
    group, steps = num_heads // num_kv_heads, strides.tolist()
    batch, head = int(batch_head) // num_heads, int(batch_head) % num_heads
    for i in range(block):
        row = int(number) * block + i
        if row < length:
            start = batch * steps[0] + head // group * steps[1] + row * steps[2]
            offsets[i, :head_dim] = start + torch.arange(head_dim) * steps[3]
            mask[i, :head_dim] = True
    return offsets, mask


# %% right: whole numbers
# Python's integers, which have as many bits as they need.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch, head = divmod(int(batch_head), num_heads)
    of_batch, of_head, of_row, of_channel = strides.tolist()
    rows = int(number) * block + torch.arange(block)[:, None]
    channels = torch.arange(block_d)[None, :]
    start = batch * of_batch + head // (num_heads // num_kv_heads) * of_head
    return start + rows * of_row + channels * of_channel, (rows < length) & (channels < head_dim)


# %% right: widened
# Everything widened to 64 bits before anything is multiplied.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch_head, number, strides = (x.long() for x in (batch_head, number, strides))
    key_head = batch_head % num_heads * num_kv_heads // num_heads
    rows, channels = number * block + torch.arange(block), torch.arange(block_d)
    start = (torch.stack((batch_head // num_heads, key_head)) * strides[:2]).sum()
    mask = torch.outer(rows < length, channels < head_dim)
    return start + rows[:, None] * strides[2] + channels * strides[3], mask


# %% wrong: contiguous
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


# %% wrong: 32 bits
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


# %% wrong: 32 bits throughout
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


# %% wrong: modulo
# finding: key heads by modulo
# Who deals the query heads out to the key heads in turn.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch_head, number, strides = batch_head.long(), number.long(), strides.long()
    rows, channels = number * block + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch_head // num_heads * strides[0] + batch_head % num_heads % num_kv_heads * strides[1]
    return start + rows * strides[2] + channels * strides[3], (rows < length) & (channels < head_dim)


# %% wrong: no groups
# finding: a key head for every query head
# Who writes the addresses of the keys like those of the queries.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch_head, number, strides = batch_head.long(), number.long(), strides.long()
    rows, channels = number * block + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch_head // num_heads * strides[0] + batch_head % num_heads * strides[1]
    return start + rows * strides[2] + channels * strides[3], (rows < length) & (channels < head_dim)


# %% wrong: split by key heads
# finding: split by the key heads
# Who thinks of the tensor that is read and forgets what the program id counts.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch_head, number, strides = batch_head.long(), number.long(), strides.long()
    rows, channels = number * block + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch_head // num_kv_heads * strides[0] + batch_head % num_kv_heads * strides[1]
    return start + rows * strides[2] + channels * strides[3], (rows < length) & (channels < head_dim)


# %% wrong: exchanged
# finding: sequence and head exchanged
# Who takes the remainder for the sequence.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch_head, number, strides = batch_head.long(), number.long(), strides.long()
    rows, channels = number * block + torch.arange(block)[:, None], torch.arange(block_d)
    key_head = batch_head // num_heads // (num_heads // num_kv_heads)
    start = batch_head % num_heads * strides[0] + key_head * strides[1]
    return start + rows * strides[2] + channels * strides[3], (rows < length) & (channels < head_dim)


# %% wrong: tile for row
# finding: tile for row
# Who uses the number of the tile as its first row.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch, head = divmod(int(batch_head), num_heads)
    steps = strides.tolist()
    rows, channels = int(number) + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch * steps[0] + head // (num_heads // num_kv_heads) * steps[1]
    return start + rows * steps[2] + channels * steps[3], (rows < length) & (channels < head_dim)


# %% wrong: channels unmasked
# finding: channels unmasked
# Who fences the rows, and has only met heads whose size is a power of two.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch, head = divmod(int(batch_head), num_heads)
    steps = strides.tolist()
    rows, channels = int(number) * block + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch * steps[0] + head // (num_heads // num_kv_heads) * steps[1]
    return start + rows * steps[2] + channels * steps[3], (rows < length).expand(block, block_d)


# %% wrong: rows unmasked
# finding: rows unmasked
# Who believes that a grid rounded up takes care of the rows.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch, head = divmod(int(batch_head), num_heads)
    steps = strides.tolist()
    rows, channels = int(number) * block + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch * steps[0] + head // (num_heads // num_kv_heads) * steps[1]
    return start + rows * steps[2] + channels * steps[3], (channels < head_dim).expand(block, block_d)


# %% wrong: one too many
# finding: one row too many
# Who counts from 1 when it comes to the end.
import torch


def tile(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d):
    batch, head = divmod(int(batch_head), num_heads)
    steps = strides.tolist()
    rows, channels = int(number) * block + torch.arange(block)[:, None], torch.arange(block_d)
    start = batch * steps[0] + head // (num_heads // num_kv_heads) * steps[1]
    return start + rows * steps[2] + channels * steps[3], (rows <= length) & (channels <= head_dim)
