"""`attention`: validate the request, choose a backend, run it."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mhalib.backends import reference, sdpa, tiled, triton
from mhalib.backends.request import BackendChoice, Request, fit_each_other, validate

BACKENDS = {"reference": reference, "tiled": tiled, "sdpa": sdpa, "triton": triton}
NOT_BUILT_YET = ("flex",)


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
    Half precision accumulates in float32; the output has the inputs' dtype.

    Returns:
        output (B, Hq, Lq, Dv), or a tuple (output, weights, lse) of those asked for, in this order.

    Raises:
        TypeError, ValueError: wrong or ambiguous input; nothing is broadcast or converted silently.
        NotImplementedError: a backend that is not built yet.

    Source: Vaswani et al. 2017, §3.2; grouped heads Ainslie et al. 2023; softcap Gemma Team 2024 (Gemma 2), §2.
    """
    nothing_hidden = mask is None and window is None and key_lengths is None and query_lengths is None
    as_they_are = bias is None and scale is None and softcap is None and type(dropout) is float and not dropout
    only_output = backend == "auto" and causal is return_weights is return_lse is False
    if nothing_hidden and as_they_are and only_output and fit_each_other(query, key, value):
        # A short cut to what the lines below come to: on cold caches, after a large product, they cost as much as 1 %
        # of the kernel. `explain_backend` goes the long way; that both agree is tested.
        return scaled_dot_product_attention(query, key, value)
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
    result = BACKENDS[_choose(request, backend)[0]].run(request)
    asked = (True, return_weights, return_lse)
    given = tuple(part for part, wanted in zip(result, asked, strict=True) if wanted)
    return given[0] if len(given) == 1 else given


def explain_backend(
    query: Tensor, key: Tensor, value: Tensor, *, backend: str = "auto", **options: object
) -> BackendChoice:
    """Which backend `attention` would take for the same arguments, and why; nothing is computed.

    Args and errors: as for `attention`.

    Returns:
        `BackendChoice(backend, reason)`.
    """
    request = validate(query, key, value, **options)
    name, reason = _choose(request, backend)
    if backend == "auto" and name == "sdpa":
        reason = sdpa.WAYS[sdpa.plan(request)] + reason
    return BackendChoice(name, reason)


def _choose(request: Request, backend: str) -> tuple[str, str]:
    """The backend, and why; of "sdpa" taken by "auto" only why not another, as it plans its way when it runs."""
    if backend != "auto":
        return _named(request, backend), "asked for by name"
    on_gpu = request.query.device.type == "cuda"
    take_triton, why = triton.for_auto(request) if on_gpu else (False, "")
    if take_triton:
        return "triton", why
    if request.return_weights:
        return "reference", "the formula written out, because the other backends never form the weights"
    reason = sdpa.refusal(request)
    if reason:
        return "tiled", f"tile by tile in plain torch, because {reason}"
    return "sdpa", f"; not triton: {why}" if on_gpu else ""


def _named(request: Request, backend: str) -> str:
    """The backend that was asked for by name; refused where there is none, or it cannot serve the request."""
    if not isinstance(backend, str):
        raise TypeError(f"backend: got {backend!r}; accepted are the names 'auto', {', '.join(map(repr, BACKENDS))}")
    if backend in NOT_BUILT_YET:
        raise NotImplementedError(
            f"backend: {backend!r} is not built yet; built are {', '.join(map(repr, BACKENDS))}, or 'auto'"
        )
    if backend not in BACKENDS:
        raise ValueError(f"backend: got {backend!r}; accepted are 'auto', {', '.join(map(repr, BACKENDS))}")
    reason = BACKENDS[backend].refusal(request)
    if reason:
        raise ValueError(f"backend: {backend!r} cannot serve this request: {reason}; take 'reference' or 'auto'")
    return backend
