"""`attention`: validate the request, choose a backend, run it."""

from __future__ import annotations

import contextlib
import math
from typing import Literal, Unpack, overload

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mhalib.backends import derivatives, mixed_precision, reference, sdpa, tiled, triton
from mhalib.backends.request import (
    AllOptions,
    BackendChoice,
    Options,
    Request,
    Result,
    fit_each_other,
    validate,
)

BACKENDS = {"reference": reference, "tiled": tiled, "sdpa": sdpa, "triton": triton}


@overload
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    backend: str = ...,
    return_weights: Literal[False] = ...,
    return_lse: Literal[False] = ...,
    **options: Unpack[Options],
) -> Tensor: ...


@overload
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    backend: str = ...,
    return_weights: Literal[True],
    return_lse: Literal[True],
    **options: Unpack[Options],
) -> tuple[Tensor, Tensor, Tensor]: ...


@overload
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    backend: str = ...,
    return_weights: Literal[True],
    return_lse: Literal[False] = ...,
    **options: Unpack[Options],
) -> tuple[Tensor, Tensor]: ...


@overload
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    backend: str = ...,
    return_weights: Literal[False] = ...,
    return_lse: Literal[True],
    **options: Unpack[Options],
) -> tuple[Tensor, Tensor]: ...


@overload
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    backend: str = ...,
    return_weights: bool = ...,
    return_lse: bool = ...,
    **options: Unpack[Options],
) -> Tensor | tuple[Tensor, ...]: ...


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    key_lengths: Tensor | None = None,
    query_lengths: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    return_weights: bool = False,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """Scaled dot-product attention: softmax(scale · query · keyᵀ + bias) · value, head by head.

    Args:
        query: (B, Hq, Lq, D).
        key: (B, Hkv, Lk, D). `Hq` is a multiple of `Hkv`; query head `h` reads key head `h // (Hq // Hkv)`.
        value: (B, Hkv, Lk, Dv).
        mask: bool, True = may attend; (Lq, Lk), or four dimensions, each 1 or that of (B, Hq, Lq, Lk).
        bias: floating, added to the scores; shapes as for `mask`.
        causal: query `i` sees keys `0 … i + Lk − Lq` (aligned at the bottom right).
        window: number of keys in the window, the query's own included; with `causal` the last `window`,
            without it those with |i − j| < window.
        key_lengths: integer (B,), how many leading keys of each sequence are real.
        query_lengths: integer (B,), how many leading queries of each sequence are wanted; the others may see no key.
            In a padded batch it saves their rows, which nobody reads.
        scale: factor of the scores; None is 1/√D.
        softcap: c limits each score to (−c, c) by c · tanh(score / c), before `bias` and masking.
        dropout: probability with which a weight is set to 0. It is always applied: pass 0.0 in evaluation.
        backend: "auto", "reference", "tiled", "sdpa", "triton"; see `explain_backend`.
        return_weights: also return the probabilities (B, Hq, Lq, Lk), before dropout.
        return_lse: also return the log-sum-exp of the scores (B, Hq, Lq), in float32 or float64.

    All restrictions are combined with AND. A query that may see no key gets output 0, weights 0, log-sum-exp −inf
    and finite gradients. What stands behind a mask must be finite: 0 · NaN is NaN (see `masks.zero_padding`).
    Half precision accumulates in float32; the output has the inputs' dtype. Under autocast query, key and value are
    converted to its dtype first, as torch's own attention does it (float64 stays); a bias keeps its digits.
    Derivatives of any order are right in reverse mode; beyond the first, and in forward mode, they take the formula
    written out, with memory for Lq × Lk. Only dropout has first derivatives alone.

    Returns:
        output (B, Hq, Lq, Dv), or a tuple (output, weights, lse) of those asked for, in this order.

    Raises:
        TypeError, ValueError: wrong or ambiguous input; nothing is broadcast or converted silently. Lengths out of
            range are found at once on the CPU, by a failing assertion on CUDA and in compiled programs.

    Source: Vaswani et al. 2017, §3.2; grouped heads Ainslie et al. 2023; softcap Gemma Team 2024 (Gemma 2), §2.
    """
    lower = mixed_precision.autocast_dtype(query)
    nothing_hidden = mask is None and window is None and key_lengths is None and query_lengths is None
    as_they_are = bias is None and scale is None and softcap is None and type(dropout) is float and not dropout
    only_output = backend == "auto" and return_weights is return_lse is False
    no_transform = lower is None and not derivatives.forward_mode_on()
    nothing_special = nothing_hidden and as_they_are and only_output and no_transform
    if nothing_special and fit_each_other(query, key, value) and _is_torchs_causal(causal, query, key):
        # A short cut to what the lines below come to: on cold caches, after a large product, they cost as much as 1 %
        # of the kernel. `explain_backend` goes the long way; that both agree is tested.
        if causal and query.shape[2] == 1:
            causal = False
        output = scaled_dot_product_attention(query, key, value, is_causal=causal)
        if not output.requires_grad:
            return output
        plain = Request(query, key, value, 1.0 / math.sqrt(query.shape[3]), causal=causal)
        return derivatives.to_any_order(Result(output), plain).output
    if lower is not None:
        query, key, value = mixed_precision.convert(query, key, value, dtype=lower)
    request = validate(
        query,
        key,
        value,
        mask=mask,
        bias=bias,
        causal=causal,
        window=window,
        key_lengths=key_lengths,
        query_lengths=query_lengths,
        scale=scale,
        softcap=softcap,
        dropout=dropout,
        return_weights=return_weights,
        return_lse=return_lse,
    )
    name = _choose(request, backend)[0]
    with mixed_precision.autocast_off(query) if lower is not None else contextlib.nullcontext():
        result = BACKENDS[name].run(request)
    if name != "reference":
        result = derivatives.to_any_order(result, request)
    asked = (True, return_weights, return_lse)
    given = tuple(part for part, wanted in zip(result, asked, strict=True) if wanted and part is not None)
    return given[0] if len(given) == 1 else given


def explain_backend(
    query: Tensor, key: Tensor, value: Tensor, *, backend: str = "auto", **options: Unpack[AllOptions]
) -> BackendChoice:
    """Which backend `attention` would take for the same arguments, and why; nothing is computed.

    Args and errors: as for `attention`.

    Returns:
        `BackendChoice(backend, reason)`.
    """
    lower = mixed_precision.autocast_dtype(query)
    if lower is not None:
        query, key, value = mixed_precision.convert(query, key, value, dtype=lower)
    request = validate(query, key, value, **options)
    name, reason = _choose(request, backend)
    if backend == "auto" and name == "sdpa":
        reason = sdpa.reason(request) + reason
    return BackendChoice(name, reason)


def _is_torchs_causal(causal: bool, query: Tensor, key: Tensor) -> bool:
    """Is `causal` what torch means by it? One query stands at the last key and sees all; a square has one diagonal."""
    return causal is False or (causal is True and query.shape[2] in (1, key.shape[2]))


def _choose(request: Request, backend: str) -> tuple[str, str]:
    """The backend, and why; of "sdpa" taken by "auto" only why not another, as it plans its way when it runs."""
    if backend != "auto":
        return _named(request, backend), "asked for by name"
    if derivatives.in_forward_mode(request):
        return "reference", derivatives.FORWARD_MODE
    on_gpu = request.query.device.type == "cuda"
    take_triton, why = triton.for_auto(request) if on_gpu else (False, "")
    if take_triton:
        return "triton", why
    if request.return_weights:
        return "reference", "the formula written out, because the other backends never form the weights"
    reason = derivatives.refusal_of_torch(request) or sdpa.declined(request)
    if reason:
        return "tiled", f"tile by tile in plain torch, because {reason}"
    return "sdpa", f"; not triton: {why}" if on_gpu else ""


def _named(request: Request, backend: str) -> str:
    """The backend that was asked for by name; refused where there is none, or it cannot serve the request."""
    if not isinstance(backend, str):
        raise TypeError(f"backend: got {backend!r}; accepted are the names 'auto', {', '.join(map(repr, BACKENDS))}")
    if backend not in BACKENDS:
        raise ValueError(f"backend: got {backend!r}; accepted are 'auto', {', '.join(map(repr, BACKENDS))}")
    reason = BACKENDS[backend].refusal(request)
    if reason is None and backend != "reference" and derivatives.in_forward_mode(request):
        reason = derivatives.FORWARD_MODE
    if reason is None and backend == "sdpa":
        reason = derivatives.refusal_of_torch(request)
    if reason:
        raise ValueError(f"backend: {backend!r} cannot serve this request: {reason}; take 'reference' or 'auto'")
    return backend
