"""torch's fused kernels: `torch.nn.functional.scaled_dot_product_attention`, with this library's contract around it.

Three of its habits are corrected here: `is_causal` is aligned at the top left when the lengths differ; a row that
may attend to nothing is 0, NaN or a mean depending on the kernel; one key head is broadcast without being asked.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mhalib.backends.request import Request, Result


def refusal(request: Request) -> str | None:
    if request.return_weights:
        return "torch's fused kernels never form the weights"
    if request.return_lse:
        return "torch's public interface does not return the log-sum-exp"
    if request.softcap is not None:
        return "torch's fused kernels cannot cap the scores"
    bias, dtype = request.bias, request.query.dtype
    if bias is not None and torch.promote_types(bias.dtype, dtype) != dtype:
        return f"torch's fused kernels would round the {bias.dtype} bias to {dtype}"
    if 0 in (request.batch, request.lq, request.lk, request.value.shape[3]):
        return "torch's fused kernels are not defined on empty inputs"
    return None


def run(request: Request) -> Result:
    attn_mask, dead, is_causal = _restrictions(request)
    output = scaled_dot_product_attention(
        request.query,
        request.key,
        request.value,
        attn_mask=attn_mask,
        dropout_p=request.dropout,
        is_causal=is_causal,
        scale=request.scale,
        enable_gqa=request.num_heads != request.num_kv_heads,
    )
    return Result(output if dead is None else output.masked_fill(dead, 0.0))


def _restrictions(request: Request) -> tuple[Tensor | None, Tensor | None, bool]:
    """(mask for torch, rows to blank afterwards (…, Lq, 1), is_causal): dead rows are opened, then blanked."""
    only_causal = request.mask is None and request.window is None and request.key_lengths is None
    if only_causal and request.bias is None and request.causal and request.lq == request.lk:
        return None, None, True
    allowed = request.allowed()
    if request.bias is None:
        if allowed is None:
            return None, None, False
        dead = ~allowed.any(dim=-1, keepdim=True)
        return _expand(allowed | dead, request), dead, False
    bias = request.bias.to(request.query.dtype)
    if allowed is not None:
        bias = bias.masked_fill(~allowed, float("-inf"))
    dead = (bias == float("-inf")).all(dim=-1, keepdim=True)
    return _expand(bias.masked_fill(dead, 0.0), request), dead, False


def _expand(mask: Tensor, request: Request) -> Tensor:
    """A view of shape (B, Hq, Lq, Lk): some of torch's kernels take no mask that is 1 along queries or keys."""
    return mask.expand(request.batch, request.num_heads, request.lq, request.lk)
