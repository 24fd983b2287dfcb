"""The kernels as operators of torch, so that autograd, torch.compile, autocast and opcheck know them.

`mhalib::triton_attention` and its backward are custom operators, opaque to torch.compile, each with a rule for the
shapes of its results. The backward is an operator of its own, so that compiled training contains it, and it has no
derivative: a second backward is refused instead of being wrong.
"""

import contextlib

import torch
from torch import Tensor
from torch.autograd import forward_ad

from mhalib.backends.triton import backward, decode, forward

#: The smallest normal number of float32: a scale below it would be 0 in a kernel, and −inf · 0 is NaN.
TINY = torch.finfo(torch.float32).tiny


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_lengths: Tensor | None = None,
    query_lengths: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float,
    softcap: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(output (B, Hq, Lq, Dv), lse (B, Hq, Lq) in float32), differentiable once with respect to query, key, value.

    Raises:
        RuntimeError: forward-mode differentiation of one of the three, or a second derivative.
    """
    # The kernels take the largest score before scaling it, which needs a scale above 0.
    if scale < 0:
        query, scale = -query, -scale
    if scale < TINY:
        query, scale = query * 0, 1.0
    call = _Transformed.apply if _in_a_transform() else triton_attention
    return call(query, key, value, key_lengths, query_lengths, causal, window, scale, softcap)


@torch.library.custom_op("mhalib::triton_attention", mutates_args=())
def triton_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_lengths: Tensor | None,
    query_lengths: Tensor | None,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
) -> tuple[Tensor, Tensor]:
    """One launch for many queries; for few, the keys are split over the chip and the parts joined."""
    kernel = decode.decode if decode.suits(query, key) else forward.forward
    with _device_of(query):
        return kernel(
            query, key, value, key_lengths, query_lengths, causal=causal, window=window, scale=scale, softcap=softcap
        )


@triton_attention.register_fake
def _(query, key, value, key_lengths, query_lengths, causal, window, scale, softcap):
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
    query_lengths: Tensor | None,
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
            query_lengths,
            causal=causal,
            window=window,
            scale=scale,
            softcap=softcap,
        )


@triton_attention_backward.register_fake
def _(
    grad_output, grad_lse, query, key, value, output, lse, key_lengths, query_lengths, causal, window, scale, softcap
):
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _save(ctx, inputs, output):
    query, key, value, key_lengths, query_lengths, *ctx.options = inputs
    ctx.save_for_backward(query, key, value, *output, key_lengths, query_lengths)


def _differentiate(ctx, grad_output, grad_lse):
    grads = triton_attention_backward(grad_output, grad_lse, *ctx.saved_tensors, *ctx.options)
    return *grads, None, None, None, None, None, None


def _refuse(ctx, *grads):
    raise RuntimeError(
        "the triton backend computes first derivatives only: its backward cannot be differentiated again. "
        "For second derivatives (create_graph=True, gradient penalties) take backend='reference'"
    )


def _refuse_forward(ctx, *tangents):
    raise RuntimeError(
        "the triton backend has no forward-mode derivative: torch.func.jvp, jacfwd, hessian and dual tensors "
        "cannot go through it. Take backend='reference', or reverse mode (torch.func.grad, backward)"
    )


triton_attention.register_autograd(_differentiate, setup_context=_save)
triton_attention_backward.register_autograd(_refuse)


def _in_a_transform() -> bool:
    """Is a transform of torch.func, or forward mode, on? Operators of torch know neither: under torch.func.grad they
    fail, and a derivative that is carried forward they drop, so that the answer would be 0."""
    if torch.compiler.is_compiling():
        if forward_ad._current_level >= 0:
            _refuse_forward(None)
        return False
    stack = torch._C._functorch.peek_interpreter_stack()  # pyright: ignore[reportAttributeAccessIssue]
    return forward_ad._current_level >= 0 or stack is not None


def _mapped(operator):
    """A rule for torch.func.vmap: the axis that is mapped over becomes part of the batch."""

    def rule(info, in_dims, *args):
        def fold(x, axis):
            if not isinstance(x, Tensor):
                return x
            x = x.expand(info.batch_size, *x.shape) if axis is None else x.movedim(axis, 0)
            return x.flatten(0, 1)

        results = operator(*(fold(x, axis) for x, axis in zip(args, in_dims, strict=True)))
        batch = results[0].shape[0] // info.batch_size
        return tuple(x.unflatten(0, (info.batch_size, batch)) for x in results), (0,) * len(results)

    return rule


triton_attention.register_vmap(_mapped(triton_attention))
triton_attention_backward.register_vmap(_mapped(triton_attention_backward))


class _TransformedBackward(torch.autograd.Function):
    """The backward operator for transforms: it can be mapped over, and differentiated neither way."""

    vmap = staticmethod(_mapped(lambda *arguments: _TransformedBackward.apply(*arguments)))
    setup_context = staticmethod(lambda ctx, inputs, output: None)
    backward = staticmethod(_refuse)
    jvp = staticmethod(_refuse_forward)

    @staticmethod
    def forward(*arguments):
        return triton_attention_backward(*arguments)


class _Transformed(torch.autograd.Function):
    """The operator for transforms."""

    vmap = staticmethod(_mapped(lambda *arguments: _Transformed.apply(*arguments)))
    setup_context = staticmethod(_save)
    jvp = staticmethod(_refuse_forward)

    @staticmethod
    def forward(*arguments):
        return triton_attention(*arguments)

    @staticmethod
    def backward(ctx, grad_output, grad_lse):
        grads = _TransformedBackward.apply(grad_output, grad_lse, *ctx.saved_tensors, *ctx.options)
        return *grads, None, None, None, None, None, None


def _device_of(x: Tensor):
    """A kernel is launched on the current device, which need not be that of the tensors."""
    return torch.cuda.device(x.device) if x.device.type == "cuda" else contextlib.nullcontext()
