# Groups as an axis of their own, nothing repeated.
import torch


def repaired(query, key, value, num_heads, num_kv_heads):
    query = query.unflatten(-1, (num_kv_heads, num_heads // num_kv_heads, -1))  # (B, Lq, Hkv, G, D)
    key, value = (x.unflatten(-1, (num_kv_heads, -1)) for x in (key, value))  # (B, Lk, Hkv, D)
    scores = torch.einsum("bikgd,bjkd->bkgij", query, key) / query.shape[-1] ** 0.5
    return torch.einsum("bkgij,bjkd->bikgd", scores.softmax(dim=-1), value).flatten(2)
