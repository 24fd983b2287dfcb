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
