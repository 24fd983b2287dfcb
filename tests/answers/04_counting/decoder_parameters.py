# %% right: built
# By building the layers without storage, and counting each parameter once.
from torch import nn


def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    inner, inner_kv = num_heads * head_dim, num_kv_heads * head_dim

    def linear(inward, outward, bias=False):
        return nn.Linear(inward, outward, bias=bias, device="meta")

    layer = nn.ModuleList([linear(d_model, n, qkv_bias) for n in (inner, inner_kv, inner_kv)])
    layer.extend([linear(inner, d_model), linear(d_model, d_ff), linear(d_model, d_ff), linear(d_ff, d_model)])
    layer.extend([nn.RMSNorm(d_model, device="meta") for _ in range(2)])
    outside = nn.ModuleList([nn.Embedding(vocab, d_model, device="meta"), linear(d_model, vocab)])
    outside.append(nn.RMSNorm(d_model, device="meta"))
    if tied:
        outside[1].weight = outside[0].weight
    one, rest = (sum(p.numel() for p in module.parameters()) for module in (layer, outside))
    return layers * one + rest


# %% right: sum
# Matrix by matrix, as one reads a configuration.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    inner, inner_kv = num_heads * head_dim, num_kv_heads * head_dim
    matrices = [(d_model, inner), (d_model, inner_kv), (d_model, inner_kv), (inner, d_model)]
    matrices += [(d_model, d_ff), (d_model, d_ff), (d_ff, d_model)]
    total = sum(rows * columns for rows, columns in matrices) + 2 * d_model
    if qkv_bias:
        total += sum(columns for _, columns in matrices[:3])
    total = total * layers + d_model
    for _ in range(1 if tied else 2):
        total += vocab * d_model
    return total


# %% wrong: tied twice
# finding: tied table counted twice
# Who adds up what a checkpoint lists under two names, as in karpathy/nanoGPT PR 209.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_kv_heads) * head_dim
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = 2 * vocab * d_model
    return layers * (attention + feed_forward) + norms + tables


# %% wrong: no head
# finding: output layer forgotten
# Who takes every output layer for a tied one.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_kv_heads) * head_dim
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model
    return layers * (attention + feed_forward) + norms + tables


# %% wrong: two matrices
# finding: feed-forward of two matrices
# Who knows the feed-forward block of the 2017 paper.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_kv_heads) * head_dim
    feed_forward = 2 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables


# %% wrong: no output
# finding: no output matrix
# Who counts query, key and value, as the printed 786,432 does.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = d_model * (num_heads + 2 * num_kv_heads) * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_kv_heads) * head_dim
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables


# %% wrong: no groups
# finding: no groups
# Who knows that attention has four equal matrices.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 4 * d_model * num_heads * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_heads) * head_dim
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables


# %% wrong: division
# finding: head_dim by division
# Who computes the size of a head and does not read it.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    head_dim = d_model // num_heads
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_kv_heads) * head_dim
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables


# %% wrong: no norms
# finding: no norms
# Who counts matrices only.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_kv_heads) * head_dim
    feed_forward = 3 * d_model * d_ff
    norms = 0
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables


# %% wrong: last norm
# finding: the last norm
# Who multiplies everything by the number of layers.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_kv_heads) * head_dim
    feed_forward = 3 * d_model * d_ff
    norms = 2 * layers * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables


# %% wrong: bias everywhere
# finding: a bias on the output matrix
# Who reads a switch for biases as a switch for all of them.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += (num_heads + 2 * num_kv_heads) * head_dim + d_model
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables


# %% wrong: bias width
# finding: biases as wide as the input
# Who remembers that biases make 4 · d_model, and takes one away.
def decoder_parameters(vocab, layers, d_model, num_heads, num_kv_heads, head_dim, d_ff, qkv_bias, tied):
    attention = 2 * d_model * (num_heads + num_kv_heads) * head_dim
    if qkv_bias:
        attention += 3 * d_model
    feed_forward = 3 * d_model * d_ff
    norms = (2 * layers + 1) * d_model
    tables = vocab * d_model * (1 if tied else 2)
    return layers * (attention + feed_forward) + norms + tables
