"""What the formula written out can do and the faster backends cannot: forward mode and derivatives of derivatives.

The fast backends have a first derivative in reverse mode. A second derivative goes through the reference: gradients
that are to be differentiated again are computed by the formula, whose derivatives autograd knows to any order.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from mhalib.arguments import unwrapped
from mhalib.backends import reference
from mhalib.backends.mixed_precision import autocast_off
from mhalib.backends.request import Request, Result

FORWARD_MODE = "only the formula written out has forward-mode derivatives (torch.func.jvp, jacfwd, hessian)"


class _Rest(NamedTuple):
    """What a request holds beside tensors that have gradients."""

    mask: Tensor | None
    key_lengths: Tensor | None
    query_lengths: Tensor | None
    causal: bool
    window: int | None
    scale: float
    softcap: float | None
    dropout: float


def forward_mode_on() -> bool:
    """Are derivatives being computed in forward mode, of anything?"""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0


def in_forward_mode(request: Request) -> bool:
    """Does a tangent come with query, key, value or bias?"""
    if not forward_mode_on():
        return False
    return any(_has_tangent(x) for x in (request.query, request.key, request.value, request.bias) if x is not None)


def _has_tangent(x: Tensor) -> bool:
    # Under several transforms of torch.func the tangent may lie in an outer one, where it cannot be seen from here.
    return unwrapped(x) is not None or forward_ad.unpack_dual(x).tangent is not None


def refusal_of_torch(request: Request) -> str | None:
    """Why torch's kernels cannot serve this request inside torch.func, whose transforms fewer operators know."""
    if torch.compiler.is_compiling():
        return None
    padded = request.key_lengths is not None or request.query_lengths is not None
    if not padded and not request.return_lse:
        return None
    if not any(isinstance(x, Tensor) and unwrapped(x) is not None for x in request):
        return None
    what = "lengths" if padded else "the log-sum-exp"
    return f"inside a transform of torch.func its ways of serving {what} are not to be had"


def to_any_order(result: Result, request: Request) -> Result:
    """The same numbers, with gradients that can be differentiated again.

    It costs nothing until then: without `create_graph=True` the gradient goes back through the backend.
    """
    output, lse = result.output, result.lse
    if torch.compiler.is_compiling() or not (output.requires_grad or (lse is not None and lse.requires_grad)):
        return result
    rest = (request.mask, request.key_lengths, request.query_lengths, request.causal, request.window)
    rest += (request.scale, request.softcap, request.dropout)
    function = _AnyOrder if torch._C._are_functorch_transforms_active() else _AnyOrderInEager
    output, lse = function.apply(output, lse, request.query, request.key, request.value, request.bias, *rest)
    return Result(output, result.weights, lse)


class _AnyOrder(torch.autograd.Function):
    """(output, lse) of a backend unchanged; its inputs stand beside them, for gradients by the formula."""

    generate_vmap_rule = True

    @staticmethod
    def forward(output, lse, query, key, value, bias, *rest):
        # A detached tensor shares memory and version with its source, and may be changed in place like any result.
        return output.detach(), None if lse is None else lse.detach()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, query, key, value, bias, mask, key_lengths, query_lengths, *ctx.options = inputs
        ctx.save_for_backward(query, key, value, bias, mask, key_lengths, query_lengths)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, *grad_outputs):
        grad_output, grad_lse = grad_outputs
        query, key, value, bias, *others = ctx.saved_tensors
        sources = (query, key, value, bias)
        if not _differentiated_again(grad_output, grad_lse, *sources):
            return grad_output, grad_lse, *[None] * 12
        rest = _Rest(*others, *ctx.options)
        if rest.dropout:
            raise RuntimeError(
                "second derivatives (create_graph=True) with dropout: the weights that were dropped cannot be drawn "
                "again; take backend='reference'"
            )
        grads = _by_the_formula(grad_output, grad_lse, [x for x in sources if x is not None], rest)
        needed = zip(grads, ctx.needs_input_grad[2:6], strict=False)  # without a bias there are three
        return None, None, *(grad if needs else None for grad, needs in needed), *[None] * (12 - len(grads))


class _AnyOrderInEager(torch.autograd.Function):
    """The same, in half the time: of a function with `setup_context`, torch reads the signature at each call."""

    @staticmethod
    def forward(ctx, *inputs):
        results = _AnyOrder.forward(*inputs)
        _AnyOrder.setup_context(ctx, inputs, results)
        return results

    backward = _AnyOrder.backward


def _by_the_formula(
    grad_output: Tensor | None, grad_lse: Tensor | None, sources: list[Tensor], rest: _Rest
) -> tuple[Tensor, ...]:
    """The gradient of each source (query, key, value, and bias if there is one), differentiable."""

    def formula(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        result = reference.run(Request(query, key, value, bias=bias, return_lse=True, **rest._asdict()))
        return result.output, result.lse

    with autocast_off(sources[0]):
        results, pull = torch.func.vjp(formula, *sources)  # pyright: ignore[reportAssignmentType] (three with has_aux)
        arriving = zip((grad_output, grad_lse), results, strict=True)
        return pull(tuple(torch.zeros_like(x) if grad is None else grad.to(x.dtype) for grad, x in arriving))


def _differentiated_again(*tensors: Tensor | None) -> bool:
    """Will somebody ask for the derivative of the gradients that are being computed?

    torch.func always builds the graph for it; there, only tensors that an outer transform follows are meant.
    """
    return torch.is_grad_enabled() and any(_followed(x) for x in tensors if x is not None)


def _followed(x: Tensor) -> bool:
    inner = unwrapped(x)
    if inner is None:
        return x.requires_grad
    while inner is not None:
        if inner.requires_grad:
            return True
        inner = unwrapped(inner)
    return False
