"""What is asked of a backend, checked once: `validate` turns the arguments of `attention` into a `Request`."""

from __future__ import annotations

import math
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor

from mhalib import masks
from mhalib.arguments import check_flags, check_whole, divisors, is_symbol, kind, number, probability

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Options(TypedDict, total=False):
    """What may be asked of attention by keyword, as documented at `mhalib.attention`."""

    mask: Tensor | None
    bias: Tensor | None
    causal: bool
    window: int | None
    key_lengths: Tensor | None
    query_lengths: Tensor | None
    scale: float | None
    softcap: float | None
    dropout: float


class AllOptions(Options, total=False):
    """The same, and what may be asked for beside the output."""

    return_weights: bool
    return_lse: bool


class BackendChoice(NamedTuple):
    """The backend that `attention` would take, and why."""

    backend: str
    reason: str

    def __str__(self) -> str:
        return f"{self.backend}: {self.reason}"


class Result(NamedTuple):
    """What a backend returns; `weights` and `lse` are None unless they were asked for."""

    output: Tensor
    weights: Tensor | None = None
    lse: Tensor | None = None


class Request(NamedTuple):
    """Checked arguments of `mhalib.attention`; every field as documented there, `scale` resolved.

    A named tuple and not a dataclass: it is made in a third of the time, which counts at each token of a decoder.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    mask: Tensor | None = None
    bias: Tensor | None = None
    causal: bool = False
    window: int | None = None
    key_lengths: Tensor | None = None
    query_lengths: Tensor | None = None
    softcap: float | None = None
    dropout: float = 0.0
    return_weights: bool = False
    return_lse: bool = False

    @property
    def batch(self) -> int:
        return self.query.shape[0]

    @property
    def num_heads(self) -> int:
        return self.query.shape[1]

    @property
    def num_kv_heads(self) -> int:
        return self.key.shape[1]

    @property
    def lq(self) -> int:
        return self.query.shape[2]

    @property
    def lk(self) -> int:
        return self.key.shape[2]

    @property
    def compute_dtype(self) -> torch.dtype:
        """Half precision accumulates in float32."""
        return compute_dtype(self.query)

    def padded_queries(self) -> Tensor | None:
        """bool (B, 1, Lq, 1), True = past the end of its sequence, so that its row is blank; None = none is."""
        if self.query_lengths is None:
            return None
        return ~masks.leading(self.query_lengths, self.lq)[:, None, :, None]

    def allowed(self) -> Tensor | None:
        """All restrictions combined: bool, (Lq, Lk) or (B|1, H|1, Lq|1, Lk), True = may attend; None = all."""
        device = self.query.device
        parts = []
        if self.mask is not None:
            parts.append(self.mask)
        if self.window is not None:
            parts.append(masks.window(self.lq, self.lk, self.window, causal=self.causal, device=device))
        elif self.causal:
            parts.append(masks.causal(self.lq, self.lk, device=device))
        if self.key_lengths is not None:
            parts.append(masks.leading(self.key_lengths, self.lk)[:, None, None, :])
        if self.query_lengths is not None:
            parts.append(masks.leading(self.query_lengths, self.lq)[:, None, :, None])
        if not parts:
            return None
        combined = parts[0]
        for part in parts[1:]:
            combined = combined & part
        return combined


def validate(
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
    return_weights: bool = False,
    return_lse: bool = False,
) -> Request:
    """Refuse what is wrong or could be read in two ways; resolve `scale`."""
    _check_inputs(query, key, value)
    _check_sizes(query, key, value)
    check_flags(causal=causal, return_weights=return_weights, return_lse=return_lse)
    if mask is not None:
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
            raise TypeError(
                f"mask: got {kind(mask)}; accepted is a bool tensor, True = may attend. Numbers that are added "
                "to the scores go to bias=; masks of other libraries through mhalib.masks.from_torch_mha, "
                "from_huggingface or from_additive"
            )
        _check_score_shape("mask", mask, query, key)
    if bias is not None:
        if not isinstance(bias, Tensor) or bias.dtype not in FLOATS:
            raise TypeError(
                f"bias: got {kind(bias)}; accepted is a floating tensor that is added to the scores. "
                "A bool mask goes to mask="
            )
        if bias.dtype == torch.float64 != query.dtype:
            raise TypeError(
                f"bias: got {bias.dtype} where query is {query.dtype}, so that scores are float32 and would round it; "
                "convert the bias with .to(torch.float32)"
            )
        _check_score_shape("bias", bias, query, key)
    if window is not None:
        check_whole(window=window)
        symbolic = is_symbol(query.shape[2]) or is_symbol(key.shape[2])
        if not symbolic and window >= (key.shape[2] if causal else max(query.shape[2], key.shape[2])):
            window = None  # it hides nothing: the last query stands at the last key
        elif not isinstance(window, int | torch.SymInt):
            window = int(window)  # numpy's integers are accepted too, and no backend needs to know them
    if key_lengths is not None:
        masks.check_lengths(key_lengths, query.shape[0], key.shape[2], "keys", name="key_lengths", device=query.device)
    if query_lengths is not None:
        masks.check_lengths(
            query_lengths, query.shape[0], query.shape[2], "queries", name="query_lengths", device=query.device
        )
    computed = compute_dtype(query)
    return Request(
        query,
        key,
        value,
        mask=mask,
        bias=bias,
        causal=causal,
        window=window,
        key_lengths=key_lengths,
        query_lengths=query_lengths,
        scale=1.0 / math.sqrt(query.shape[3]) if scale is None else _checked_scale(scale, computed),
        softcap=None if softcap is None else _checked_softcap(softcap, computed),
        dropout=0.0 if type(dropout) is float and not dropout else probability("dropout", dropout),
        return_weights=return_weights,
        return_lse=return_lse,
    )


def compute_dtype(x: Tensor) -> torch.dtype:
    """In which the scores of `x` are computed: half precision accumulates in float32."""
    return torch.promote_types(x.dtype, torch.float32)


def fit_each_other(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Are these three tensors of equal heads that `validate` accepts and torch's fused kernels take? In one look."""
    if not (isinstance(query, Tensor) and isinstance(key, Tensor) and isinstance(value, Tensor)):
        return False
    of_query, of_key = query.shape, key.shape
    return (
        len(of_query) == 4
        and of_key == value.shape
        and (of_query == of_key or (len(of_key) == 4 and of_query[:2] == of_key[:2] and of_query[3] == of_key[3]))
        and 0 not in of_query
        and 0 not in of_key
        and query.dtype is key.dtype is value.dtype
        and query.dtype in FLOATS
        and query.device == key.device == value.device
        and query.stride(3) == key.stride(3) == value.stride(3) == 1
    )


def _check_inputs(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: got {type(x).__name__}; accepted is a tensor (B, H, L, D)")
        if x.dtype not in FLOATS:
            raise TypeError(f"{name}: got {x.dtype}; accepted are float16, bfloat16, float32 and float64")
        if x.dim() != 4:
            missing = {2: f"; one head of one sequence is {name}[None, None]", 3: f"; one head is {name}[:, None]"}
            raise ValueError(f"{name}: got shape {tuple(x.shape)}; accepted is (B, H, L, D){missing.get(x.dim(), '')}")
        if x.dtype is not query.dtype:
            raise TypeError(f"{name}: got {x.dtype} where query is {query.dtype}; convert one of them with .to()")
        if x.device != query.device:
            _check_device(name, x, query)


def _check_sizes(query: Tensor, key: Tensor, value: Tensor) -> None:
    (batch, num_heads, _, dim), (key_batch, num_kv_heads, lk, key_dim) = query.shape, key.shape
    value_batch, *heads_and_length, _ = value.shape
    if not batch == key_batch == value_batch:
        given = _shapes(query, key, value)
        raise ValueError(f"query, key, value: different batch sizes in {given}; nothing is broadcast, expand them")
    if heads_and_length != [num_kv_heads, lk]:
        raise ValueError(f"key, value: heads and lengths must be equal, got {_shapes(query, key, value)}")
    if dim != key_dim or dim == 0:
        raise ValueError(f"query, key: the head size must be equal and at least 1, got {_shapes(query, key, value)}")
    if num_kv_heads == 0 or num_heads == 0 or num_heads % num_kv_heads:
        raise ValueError(
            f"query, key: got {num_heads} query heads and {num_kv_heads} key heads; accepted are "
            f"{divisors(num_heads)} key heads, the divisors of {num_heads}"
        )


def _shapes(query: Tensor, key: Tensor, value: Tensor) -> str:
    return f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"


def _check_score_shape(name: str, x: Tensor, query: Tensor, key: Tensor) -> None:
    """(Lq, Lk), or four dimensions that are each 1 or the full size; anything else could be read in two ways."""
    full = (query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    if x.dim() == 2:
        fits = tuple(x.shape) == full[2:]
    else:
        fits = x.dim() == 4 and all(n in (1, size) for n, size in zip(x.shape, full, strict=True))
    if not fits:
        hint = ""
        if x.dim() == 2 and tuple(x.shape) == (full[0], full[3]):
            hint = f". One row per sequence is {name}[:, None, None, :], or key_lengths="
        elif x.dim() == 3:
            hint = f". Three dimensions could be batch or heads: write {name}[:, None] or {name}[None]"
        raise ValueError(
            f"{name}: got shape {tuple(x.shape)}; accepted are (Lq, Lk) = {full[2:]} and "
            f"(B|1, Hq|1, Lq|1, Lk|1) with (B, Hq, Lq, Lk) = {full}{hint}"
        )
    _check_device(name, x, query)


def _check_device(name: str, x: Tensor, query: Tensor) -> None:
    if x.device != query.device:
        raise ValueError(f"{name}: is on {x.device}, query on {query.device}; move one of them with .to()")


def _checked_scale(scale: float, dtype: torch.dtype) -> float:
    limits = torch.finfo(dtype)
    accepted = f"a finite number, or None for 1/√D; in {dtype} 0, or {limits.tiny:.1e} to {limits.max:.1e} in size"
    return number("scale", scale, accepted, lambda x: x == 0 or limits.tiny <= abs(x) <= limits.max)


def _checked_softcap(softcap: float, dtype: torch.dtype) -> float:
    # A score divided by the cap must keep its digits: at most the largest number for that, down to scores of eps.
    limits = torch.finfo(dtype)
    largest = limits.eps / limits.tiny
    accepted = f"a number above 0, or None for no cap; in {dtype} {limits.tiny:.1e} to {largest:.1e}"
    return number("softcap", softcap, accepted, lambda x: limits.tiny <= x <= largest)
