"""The formula, written out: softmax(scale · query · keyᵀ + bias) · value. Slow, clear, and the measure of all others.

Vaswani et al. 2017, §3.2.1 and §3.2.2; grouped heads after Ainslie et al. 2023, §2.2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.backends.request import Request, Result


def refusal(request: Request) -> str | None:
    """The reference serves every request."""
    return None


def scores(request: Request) -> Tensor:
    """The numbers that go into the softmax, (B, Hq, Lq, Lk); −inf where a query may not attend."""
    groups = request.num_heads // request.num_kv_heads
    query = request.query.to(request.compute_dtype).unflatten(1, (request.num_kv_heads, groups))
    key = request.key.to(request.compute_dtype)
    # Query head h reads key head h // groups; a group shares its keys, so they are never repeated.
    result = torch.einsum("bkgqd,bksd->bkgqs", query, key).flatten(1, 2) * request.scale
    if request.softcap is not None:
        result = request.softcap * torch.tanh(result / request.softcap)
    if request.bias is not None:
        result = result + request.bias.to(result.dtype)
    allowed = request.allowed()
    return result if allowed is None else result.masked_fill(~allowed, float("-inf"))


def run(request: Request) -> Result:
    raw = scores(request)
    # A row of −inf has no softmax: exp(−inf − −inf) is NaN. Such rows are computed as zeros, then blanked, so that
    # neither their values nor their gradients ever see a NaN.
    dead = (raw == float("-inf")).all(dim=-1, keepdim=True)
    safe = raw.masked_fill(dead, 0.0)
    weights = torch.softmax(safe, dim=-1).masked_fill(dead, 0.0)
    dropped = torch.nn.functional.dropout(weights, request.dropout) if request.dropout else weights

    groups = request.num_heads // request.num_kv_heads
    grouped = dropped.unflatten(1, (request.num_kv_heads, groups))
    value = request.value.to(request.compute_dtype)
    # Blanked although it is 0: a NaN that arrives in the gradient of such a row must not reach the values.
    output = torch.einsum("bkgqs,bksd->bkgqd", grouped, value).flatten(1, 2).masked_fill(dead, 0.0)

    lse = None
    if request.return_lse:
        lse = torch.logsumexp(safe, dim=-1).masked_fill(dead.squeeze(-1), float("-inf"))
    dtype = request.query.dtype
    return Result(output.to(dtype), weights.to(dtype) if request.return_weights else None, lse)
