"""The kernels as operators of torch, so that autograd, torch.compile, autocast and opcheck know them.

`mhalib::triton_attention` and its backward are custom operators, opaque to torch.compile, each with a rule for the
shapes of its results. The backward is an operator of its own, so that compiled training contains it, and it has no
derivative: a second backward is refused instead of being wrong.
"""

import contextlib

import torch
from torch import Tensor

from mhalib.backends.triton import backward, decode, forward


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_lengths: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float,
    softcap: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(output (B, Hq, Lq, Dv), lse (B, Hq, Lq) in float32), differentiable once with respect to query, key, value."""
    # The kernels take the largest score before scaling it, which needs a scale above 0.
    if scale < 0:
        query, scale = -query, -scale
    elif scale == 0:
        query, scale = query * 0, 1.0
    return triton_attention(query, key, value, key_lengths, causal, window, scale, softcap)


def autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Under autocast the tensors in its dtype, as torch's own attention takes them; elsewhere as they are."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return tensors
    return tuple(x.to(torch.get_autocast_dtype(kind)) for x in tensors)


@torch.library.custom_op("mhalib::triton_attention", mutates_args=())
def triton_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_lengths: Tensor | None,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
) -> tuple[Tensor, Tensor]:
    """One launch for many queries; for few, the keys are split over the chip and the parts joined."""
    kernel = decode.decode if decode.suits(query, key) else forward.forward
    with _device_of(query):
        return kernel(query, key, value, key_lengths, causal=causal, window=window, scale=scale, softcap=softcap)


@triton_attention.register_fake
def _(query, key, value, key_lengths, causal, window, scale, softcap):
    output = query.new_empty(*query.shape[:3], value.shape[3])
    return output, query.new_empty(query.shape[:3], dtype=torch.float32)


@torch.library.custom_op("mhalib::triton_attention_backward", mutates_args=())
def triton_attention_backward(
    grad_output: Tensor,
    grad_lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    lse: Tensor,
    key_lengths: Tensor | None,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    with _device_of(query):
        return backward.backward(
            grad_output,
            grad_lse,
            query,
            key,
            value,
            output,
            lse,
            key_lengths,
            causal=causal,
            window=window,
            scale=scale,
            softcap=softcap,
        )


@triton_attention_backward.register_fake
def _(grad_output, grad_lse, query, key, value, output, lse, key_lengths, causal, window, scale, softcap):
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _save(ctx, inputs, output):
    query, key, value, key_lengths, *ctx.options = inputs
    ctx.save_for_backward(query, key, value, *output, key_lengths)


def _differentiate(ctx, grad_output, grad_lse):
    *tensors, key_lengths = ctx.saved_tensors
    grads = triton_attention_backward(grad_output, grad_lse, *tensors, key_lengths, *ctx.options)
    return *grads, None, None, None, None, None


def _refuse(ctx, *grads):
    raise RuntimeError(
        "the triton backend computes first derivatives only: its backward cannot be differentiated again. "
        "For second derivatives (create_graph=True, gradient penalties) take backend='reference'"
    )


triton_attention.register_autograd(_differentiate, setup_context=_save)
triton_attention_backward.register_autograd(_refuse)


def _device_of(x: Tensor):
    """A kernel is launched on the current device, which need not be that of the tensors."""
    return torch.cuda.device(x.device) if x.device.type == "cuda" else contextlib.nullcontext()
