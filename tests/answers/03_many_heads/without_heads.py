# %% right: subtracted
# The whole layer, and the terms of these heads taken away again.
def without_heads(heads, w_o, b_o, off):
    matrices = w_o.chunk(heads.shape[1])
    output = heads.transpose(1, 2).flatten(2) @ w_o + b_o
    for h in set(off):
        output = output - heads[:, h] @ matrices[h]
    return output


# %% right: sum
# The terms of the other heads, added to the bias one after another.
def without_heads(heads, w_o, b_o, off):
    batch, num_heads, length, size = heads.shape
    output = b_o.expand(batch, length, -1)
    for h in range(num_heads):
        if h not in off:
            output = output + heads[:, h] @ w_o[h * size : (h + 1) * size]
    return output


# %% right: zeros
# Zeros in the channels of the concatenation that belong to these heads.
import torch


def without_heads(heads, w_o, b_o, off):
    size = heads.shape[3]
    joined = torch.cat(list(heads.unbind(dim=1)), dim=-1)
    keep = torch.ones(joined.shape[-1], dtype=joined.dtype)
    for h in off:
        keep[h * size : (h + 1) * size] = 0
    return (joined * keep) @ w_o + b_o


# %% wrong: in place
# finding: written into the input
# Who clears the heads where they are, and forgets that they are the caller's.
def without_heads(heads, w_o, b_o, off):
    heads[:, off] = 0
    return heads.transpose(1, 2).flatten(2) @ w_o + b_o


# %% wrong: output channels
# finding: output channels
# Who thinks that the output of the layer is still the heads side by side.
import torch


def without_heads(heads, w_o, b_o, off):
    output, size = heads.transpose(1, 2).flatten(2) @ w_o + b_o, heads.shape[3]
    keep = torch.ones(output.shape[-1], dtype=output.dtype)
    for h in off:
        keep[h * size : (h + 1) * size] = 0
    return output * keep


# %% wrong: every nth
# finding: every H-th row
# Who remembers that heads are strided in memory, and strides the wrong axis.
def without_heads(heads, w_o, b_o, off):
    w_o = w_o.clone()
    for h in off:
        w_o[h :: heads.shape[1]] = 0
    return heads.transpose(1, 2).flatten(2) @ w_o + b_o


# %% wrong: scaled up
# finding: scaled up
# Who takes the layer for an average of heads, or a pruned head for a dropped one.
def without_heads(heads, w_o, b_o, off):
    count = heads.shape[1]
    w_of = w_o.unflatten(0, (count, -1))
    kept = [heads[:, h] @ w_of[h] * (0.0 if h in off else 1.0) for h in range(count)]
    return sum(kept) * count / max(count - len(off), 1) + b_o


# %% wrong: bias shared
# finding: bias shared out
# Who gives each head its share of the bias, so that the terms sum to the output.
def without_heads(heads, w_o, b_o, off):
    count = heads.shape[1]
    w_of = w_o.unflatten(0, (count, -1))
    output = heads.transpose(1, 2).flatten(2) @ w_o + b_o
    for h in off:
        output = output - (heads[:, h] @ w_of[h] + b_o / count)
    return output


# %% wrong: no bias
# finding: no bias
# Who writes the sum over heads and forgets what is outside of it.
def without_heads(heads, w_o, b_o, off):
    w_of = w_o.unflatten(0, (heads.shape[1], -1))
    return sum((heads[:, h] * (h not in off)) @ w_of[h] for h in range(heads.shape[1]))


# %% wrong: inverted
# finding: the others switched off
# Who reads a list of heads as the heads to keep, as a mask would be.
def without_heads(heads, w_o, b_o, off):
    w_of = w_o.unflatten(0, (heads.shape[1], -1))
    return sum((heads[:, h] * (h in off)) @ w_of[h] for h in range(heads.shape[1])) + b_o


# %% wrong: join
# finding: join without the transpose
# Who lays the heads side by side with reshape alone.
def without_heads(heads, w_o, b_o, off):
    kept = heads.clone()
    for h in off:
        kept[:, h] = 0
    return kept.reshape(heads.shape[0], heads.shape[2], -1) @ w_o + b_o
