# Einsums with the matrices cut into heads, and a sum over the heads at the end.
import torch


def multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    query, key, value = (torch.einsum("bld,dhc->bhlc", x, w.unflatten(1, (num_heads, -1))) for w in (w_q, w_k, w_v))
    scores = torch.einsum("bhic,bhjc->bhij", query, key) * query.shape[-1] ** -0.5
    weights = torch.softmax(scores, dim=3)
    return torch.einsum("bhij,bhjc,hcd->bid", weights, value, w_o.unflatten(0, (num_heads, -1))), weights
