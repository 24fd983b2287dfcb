"""Whether two values are the same to a tolerance, and if not, in one line what is different."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

import torch
from torch import Tensor

from mhalib.arguments import is_number
from mhalib.checks.data import Data, Outcome

#: Largest |got − expected| / (1 + |expected|), by the dtype of what is expected. Python's numbers are float64.
#: Some 10⁵ roundings of float64 and 10² of float32: sums of a few hundred terms in any order stay within.
TOLERANCE: Mapping[torch.dtype, float] = MappingProxyType(
    {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}
)


def difference(got: Data, want: Data, tolerance: Mapping[torch.dtype, float] = TOLERANCE) -> str:
    """What is different, in words without the expected numbers; empty where they are the same.

    Lists and tuples are the same kind of thing, and so are a number and a tensor without dimensions.
    """
    if isinstance(want, Tensor) or isinstance(got, Tensor):
        return _tensors(got, want, tolerance)
    if isinstance(want, list | tuple):
        if not isinstance(got, list | tuple) or len(got) != len(want):
            return f"got {_kind(got)}, expected {_kind(want)}"
        inner = [difference(g, w, tolerance) for g, w in zip(got, want, strict=True)]
        return next((f"item {index}: {text}" for index, text in enumerate(inner) if text), "")
    if isinstance(want, dict):
        if not isinstance(got, dict) or set(got) != set(want):
            return f"got {_kind(got)}, expected {_kind(want)}"
        inner = {key: difference(got[key], want[key], tolerance) for key in want}
        return next((f"{key!r}: {text}" for key, text in inner.items() if text), "")
    if is_number(want) and is_number(got):
        got, want = cast(float, got), cast(float, want)
        bound = 0.0 if isinstance(want, int) else tolerance.get(torch.float64, 0.0)
        close = got == want or abs(got - want) <= bound * (1 + abs(want)) or (math.isnan(got) and math.isnan(want))
        return "" if close else f"got {got:.6g}, which is not it"
    if type(got) is not type(want):
        return f"got {_kind(got)}, expected {_kind(want)}"
    return "" if got == want else f"got {got!r}, which is not it"


def outcomes_differ(got: Outcome, want: Outcome, tolerance: Mapping[torch.dtype, float] = TOLERANCE) -> str:
    """As `difference`, for values, gradients, and errors, of which only the kind counts."""
    kinds = [outcome.error and outcome.error.partition(":")[0] for outcome in (got, want)]
    if kinds[0] != kinds[1]:
        return f"got {got.error or 'a value'}, expected {kinds[1] or 'a value'}"
    return difference(got.value, want.value, tolerance) or difference(got.gradients, want.gradients, tolerance)


def _kind(value: Data) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, list | tuple):
        return f"{len(value)} items"
    if isinstance(value, dict):
        return f"a dict with the keys {sorted(map(str, value))}"
    return "None" if value is None else f"a {type(value).__name__}"


def _tensors(got: Data, want: Data, tolerance: Mapping[torch.dtype, float]) -> str:
    if isinstance(got, Tensor) and got.ndim == 0 and is_number(want):
        return difference(got.item(), want, {**tolerance, torch.float64: tolerance.get(got.dtype, 0.0)})
    if isinstance(want, Tensor) and want.ndim == 0 and is_number(got):
        got = torch.tensor(got, dtype=want.dtype)
    if not (isinstance(got, Tensor) and isinstance(want, Tensor)):
        return f"got {_kind(got)}, expected {_kind(want)}"
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {_kind(got)}, expected {_kind(want)}"
    bound = tolerance.get(want.dtype, 0.0)
    g, w = (x.double() if x.is_floating_point() else x for x in (got, want))
    close = torch.isclose(g, w, rtol=bound, atol=bound, equal_nan=True)
    if close.all():
        return ""
    wrong = int((~close).sum())
    return f"{wrong} of {close.numel()} numbers differ" + _off_by(g, w)


def _off_by(got: Tensor, want: Tensor) -> str:
    gap = (got - want).abs().nan_to_num(math.inf).max().item() if got.is_floating_point() else math.nan
    return f", by {gap:.2g} at most" if math.isfinite(gap) else ""
