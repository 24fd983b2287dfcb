"""What figures and live views are given: tensors or arrays, tokens and marks, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mhalib.arguments import is_whole, number


def array(name: str, value: Any) -> np.ndarray:
    """A tensor (on any device, of any dtype) or anything that NumPy takes, as an array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if value.is_floating_point():
            value = value.double()  # NumPy has no bfloat16
        value = value.numpy()
    try:
        return np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name}: got {type(value).__name__}; accepted is a tensor or an array") from error


def scale_end(vmax: float) -> float:
    """`vmax`, the weight drawn darkest."""
    return number("vmax", vmax, "a finite number above 0", lambda x: x > 0)


def weights(name: str, value: Any, dims: int, vmax: float) -> np.ndarray:
    """Attention weights of `dims` axes, from 0 to `vmax`."""
    found = array(name, value)
    shape = "(Lq, Lk)" if dims == 2 else "(H, Lq, Lk)"
    if found.ndim != dims or found.size == 0:
        raise ValueError(f"{name}: got shape {found.shape}; accepted is {shape}, not empty")
    if found.dtype.kind != "f" or not np.isfinite(found).all():
        raise ValueError(f"{name}: got {found.dtype} with non-finite or non-float values; accepted are finite floats")
    if found.min() < 0 or found.max() > vmax * (1 + 1e-3):
        raise ValueError(
            f"{name}: got {found.min():.3g} … {found.max():.3g}; accepted is 0 … vmax = {vmax:g}, or the colours lie"
        )
    return found


def mask(title: str, value: Any) -> np.ndarray:
    """A bool mask (Lq, Lk)."""
    found = array(f"masks[{title!r}]", value)
    if found.dtype != np.bool_:
        raise TypeError(f"masks[{title!r}]: got {found.dtype}; accepted is bool, True = may attend")
    if found.ndim != 2 or found.size == 0:
        raise ValueError(f"masks[{title!r}]: got shape {found.shape}; accepted is (Lq, Lk), not empty")
    return found


def numbers(name: str, value: Any) -> np.ndarray:
    """One or more numbers (N,)."""
    found = array(name, value)
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "fiu":
        raise ValueError(f"{name}: got {found.dtype} {found.shape}; accepted is a list of numbers, not empty")
    return found


def tokens(name: str, given: Sequence[str], length: int) -> list[str]:
    """One label for each of `length` positions."""
    if isinstance(given, str):
        raise TypeError(f"{name}: got one string; accepted is a list of {length} strings, one a token")
    labels = [str(token) for token in given]
    if len(labels) != length:
        raise ValueError(f"{name}: got {len(labels)} for a map of {length}; accepted is one for each position")
    return labels


def mark(given: Sequence[int] | None, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """(query, key) inside a map of this shape, or None."""
    if given is None:
        return None
    accepted = f"accepted is (query, key) inside {shape}"
    if not isinstance(given, tuple | list) or len(given) != 2 or not all(is_whole(index) for index in given):
        raise TypeError(f"mark: got {given!r}; {accepted}")
    row, column = int(given[0]), int(given[1])
    if not (0 <= row < shape[0] and 0 <= column < shape[1]):
        raise ValueError(f"mark: got {given}; {accepted}")
    return row, column
