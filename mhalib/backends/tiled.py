"""Online softmax in plain torch: attention tile by tile, without ever holding an (Lq, Lk) matrix.

Forward: Milakov and Gimelshein 2018; Dao et al. 2022 (FlashAttention), Algorithm 1. Backward by recomputation from
inputs, output and log-sum-exp: Dao et al. 2022, Algorithm 4. Extra memory grows with Lq + Lk, not with their product.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor

from mhalib.arguments import check_whole
from mhalib.backends import derivatives
from mhalib.backends.mixed_precision import autocast_dtype, autocast_off, convert
from mhalib.backends.request import Options, Request, Result, validate
from mhalib.backends.tiled_op import tiled_backward, tiled_forward

#: Tile sizes of the backend: on CPU, few large matrix products beat many small ones.
BLOCK_Q, BLOCK_K = 256, 512


def refusal(request: Request) -> str | None:
    if request.return_weights:
        return "tiles are thrown away, the weights are never held together"
    return None


def run(request: Request) -> Result:
    output, lse = _attend(request, BLOCK_Q, BLOCK_K)
    return Result(output, None, lse if request.return_lse else None)


def attention(
    query: Tensor, key: Tensor, value: Tensor, *, block_q: int = 64, block_k: int = 64, **options: Unpack[Options]
) -> tuple[Tensor, Tensor]:
    """Attention in tiles of `block_q` queries by `block_k` keys; the sizes change the rounding, nothing else.

    Args:
        query, key, value, options: as for `mhalib.attention` (mask, bias, causal, window, key_lengths,
            query_lengths, scale, softcap, dropout).
        block_q, block_k: at least 1; they need not divide the lengths.

    Returns:
        (output (B, Hq, Lq, Dv), lse (B, Hq, Lq) in float32 or float64).
    """
    check_whole(block_q=block_q, block_k=block_k)
    lower = autocast_dtype(query)
    if lower is not None:
        query, key, value = convert(query, key, value, dtype=lower)
    request = validate(query, key, value, **options)
    reason = refusal(request)
    if reason:
        raise ValueError(f"return_weights: got True; not to be had here: {reason}")
    if derivatives.in_forward_mode(request):
        raise ValueError(f"tiled.attention: {derivatives.FORWARD_MODE}; take mhalib.attention")
    with autocast_off(query) if lower is not None else contextlib.nullcontext():
        output, lse = _attend(request, block_q, block_k)
    result = derivatives.to_any_order(Result(output, None, lse), request)
    return result.output, lse if result.lse is None else result.lse


def merge(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Join attentions of the same queries over disjoint sets of keys, as if over their union.

    Args:
        parts: (output (…, Lq, Dv), lse (…, Lq)) each; at least one. A part that saw no key has lse −inf.

    Returns:
        (output, lse) in the same shapes. Associative and commutative up to rounding.

    Source: the rescaling of Dao et al. 2022, §3.1, applied to finished parts; split-key decoding and ring attention
    (Liu et al. 2023) rest on it.
    """
    if not parts:
        raise ValueError("parts: got none; accepted is at least one (output, lse)")
    lses = torch.stack([lse for _, lse in parts])
    # A query that saw no key in any part is computed as zeros, then blanked: neither its values nor the gradients that
    # arrive for it are to turn into NaN.
    dead = (lses == -torch.inf).all(dim=0)
    shift = torch.logsumexp(lses.masked_fill(dead, 0.0), dim=0)
    shares = torch.exp(lses - shift)
    first, *others = (share[..., None] * part.to(share.dtype) for share, (part, _) in zip(shares, parts, strict=True))
    output = sum(others, first).masked_fill(dead[..., None], 0.0)
    return output.to(parts[0][0].dtype), shift.masked_fill(dead, -torch.inf)


def _attend(request: Request, block_q: int, block_k: int) -> tuple[Tensor, Tensor]:
    # Drawn here, on the CPU whatever the device, so that a compiled program draws at each call.
    seed = torch.randint(2**62, ()) if request.dropout else None
    tensors = (request.query, request.key, request.value, request.bias, request.mask)
    lengths = request.key_lengths, request.query_lengths
    options = request.causal, request.window, request.scale, request.softcap, request.dropout
    # Both have the same derivative. Only the Function goes through torch.func, only the operator through torch.compile.
    attend = tiled_forward if torch.compiler.is_compiling() else _Tiled.apply
    return attend(*tensors, *lengths, seed, *options, block_q, block_k)


class _Tiled(torch.autograd.Function):
    """Arguments of `tiled_forward` → (output, lse); saves no (Lq, Lk) tensor."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments):
        return tiled_forward(*arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:8], *output)
        ctx.options = inputs[8:]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, *grad_outputs):
        grad_output, grad_lse = grad_outputs
        *tensors, output, lse = ctx.saved_tensors
        if grad_output is None and grad_lse is None:
            return (None,) * 15  # the gradients went another way: derivatives.to_any_order
        grad_output = torch.zeros_like(output) if grad_output is None else grad_output
        grad_lse = torch.zeros_like(lse) if grad_lse is None else grad_lse
        wants_bias = ctx.needs_input_grad[3]
        *grads, bias = _Backward.apply(grad_output, grad_lse, output, lse, *tensors, *ctx.options, wants_bias)
        return *grads, bias if wants_bias else None, *[None] * 11


class _Backward(torch.autograd.Function):
    """Arguments of `tiled_backward` → gradients that have no derivative: `derivatives.to_any_order` goes round them."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*arguments):
        return tiled_backward(*arguments)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise RuntimeError(
            "the tiled backend computes first derivatives only: its backward cannot be differentiated again. "
            "For second derivatives (create_graph=True, gradient penalties) take backend='reference'"
        )


tiled_forward.register_autograd(_Tiled.backward, setup_context=_Tiled.setup_context)
