"""One call of torch's fused kernel, and what is done so that it is taken: on a CPU it serves fewer requests than its
public function, which for the others falls back, silently, to the formula that forms the weights.

The kernel there wants last dimensions of stride 1, values as wide as keys, no dropout, and a bias without a gradient.
The first two can be arranged. `forms_weights` names the others.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad, scaled_dot_product_attention

from mhalib.arguments import is_symbol
from mhalib.backends.request import Request, Result

#: Up to so many queries, a group's queries are folded into rows even where their mask must be repeated for that.
FEW_QUERIES = 16


def forms_weights(request: Request) -> str | None:
    """Why torch would answer this request by the formula that forms the weights; None = its fused kernel serves it."""
    if request.query.device.type != "cpu":
        return None
    if request.dropout:
        return "torch's fused kernel drops no weights on a CPU"
    if request.bias is not None and request.bias.requires_grad and torch.is_grad_enabled():
        return "torch's fused kernel gives a bias no gradient on a CPU"
    return None


def folds(request: Request, restricted: bool) -> bool:
    """Are the queries of a group to be rows of one head, so that no key is repeated? `restricted`: there is a mask."""
    if request.query.device.type != "cpu" or request.num_heads == request.num_kv_heads:
        return False
    return not restricted or (not is_symbol(request.lq) and request.lq <= FEW_QUERIES)


def attend(request: Request, mask: Tensor | None, *, is_causal: bool = False) -> Result:
    """Attention of the request's queries to its keys under `mask`, and no other restriction of the request.

    Args:
        request: its query, key, value, scale, dropout and return_lse are read.
        mask: bool or floating, (Lq, Lk) or four dimensions; no row of it may hide every key.
        is_causal: torch's own restriction; there must be as many queries as keys, and no mask.

    Returns:
        The output, and the log-sum-exp where the request wants it, which is served on a CPU only.
    """
    query, key, value = request.query, request.key, request.value
    on_cpu = query.device.type == "cpu"
    folded = not is_causal and folds(request, mask is not None)
    if folded:
        query = query.unflatten(1, (request.num_kv_heads, -1)).flatten(2, 3)
        if mask is not None:
            every_head = mask if mask.dim() == 4 else mask[None, None]
            every_head = every_head.expand(-1, request.num_heads, request.lq, request.lk)
            mask = every_head.unflatten(1, (request.num_kv_heads, -1)).flatten(2, 3)
    dim, value_dim = query.shape[3], value.shape[3]
    if on_cpu and forms_weights(request) is None:
        width = max(dim, value_dim)
        query, key, value = (_of_width(x, width) for x in (query, key, value))
        if mask is not None and mask.requires_grad and not torch.is_grad_enabled():
            mask = mask.detach()
    if request.return_lse:
        output, lse = _with_lse(query, key, value, mask, is_causal, request.scale)
    else:
        lse, output = (
            None,
            scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask=mask,
                dropout_p=request.dropout,
                is_causal=is_causal,
                scale=request.scale,
                # True and False themselves: a comparison of symbolic sizes is a symbol, which torch refuses here.
                enable_gqa=True if query.shape[1] != request.num_kv_heads else False,  # noqa: SIM210
            ),
        )
    if output.shape[3] != value_dim:
        output = output[..., :value_dim]
    if folded:
        output = output.unflatten(2, (-1, request.lq)).flatten(1, 2)
        lse = None if lse is None else lse.unflatten(2, (-1, request.lq)).flatten(1, 2)
    return Result(output, None, lse)


def blank(result: Result, rows: Tensor) -> Result:
    """The result with output 0 and log-sum-exp −inf in these rows, bool (…, Lq, 1)."""
    lse = None if result.lse is None else result.lse.masked_fill(rows.squeeze(-1), -torch.inf)
    return Result(result.output.masked_fill(rows, 0.0), None, lse)


def _of_width(x: Tensor, width: int) -> Tensor:
    """`x` with zeros up to a last dimension of `width`, and its numbers side by side in memory."""
    if x.shape[3] != width:
        return pad(x, (0, width - x.shape[3]))
    # A dimension of size 1 may have any stride and pass for contiguous, which torch's choice of a kernel ignores.
    return x if x.stride(3) == 1 else x.clone(memory_format=torch.contiguous_format)


def _with_lse(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """By the operator under torch's public function, which alone returns the log-sum-exp.

    In half precision it takes a rougher exponential, and the log-sum-exp is off by some 1e-5: so it gets float32.
    """
    dtype, computed = query.dtype, torch.promote_types(query.dtype, torch.float32)
    query, key, value = (x.to(computed) for x in (query, key, value))
    if query.shape[1] != key.shape[1]:  # as the public function does
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], dim=1) for x in (key, value))
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=computed, device=mask.device).masked_fill_(~mask, -torch.inf)
    mask = None if mask is None else mask.to(computed)
    # Under torch.func it cannot be seen whether a tensor is followed.
    call = _WithLse.apply if torch.is_grad_enabled() else _kernel_with_lse
    output, lse = call(query, key, value, mask, is_causal, scale)
    return output.to(dtype), lse


def _kernel_with_lse(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale
    )


class _WithLse(torch.autograd.Function):
    """(query, key, value, mask | None, is_causal, scale) → (output, lse); torch's own derivative ignores the lse's."""

    generate_vmap_rule = True

    @staticmethod
    def forward(query, key, value, mask, is_causal, scale):
        return _kernel_with_lse(query, key, value, mask, is_causal, scale)

    @staticmethod
    def setup_context(ctx, inputs, output):
        query, key, value, mask, ctx.is_causal, ctx.scale = inputs
        ctx.save_for_backward(query, key, value, mask, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output, grad_lse):  # pyright: ignore[reportIncompatibleMethodOverride]
        query, key, value, mask, output, lse = ctx.saved_tensors
        grad_output = torch.zeros_like(output) if grad_output is None else grad_output
        tensors = [grad_output, query, key, value, output]
        if grad_lse is not None:
            # d score = weights ∘ (dO·valueᵀ − rowsum(dO ∘ O) + d lse). The kernel forms that row sum itself: one
            # more channel, 1 in dO and −d lse in O, subtracts d lse from it and, 0 in the values, changes nothing else.
            tensors = [pad(x, (0, 1), value=float(i == 0)) for i, x in enumerate(tensors[:4])]
            tensors.append(torch.cat([output, -grad_lse[..., None]], dim=-1))
        gradients = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            *tensors, lse, 0.0, ctx.is_causal, attn_mask=mask, scale=ctx.scale
        )
        if grad_lse is not None:
            gradients = [gradient[..., :-1] for gradient in gradients]
        return *gradients, None, None, None
