"""`heads`: a viewer of attention maps that is drawn in the page and asks Python nothing."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from mhalib.arguments import require, whole_numbers
from mhalib.course import inputs

MAX_TOKENS = 64
MAX_WEIGHTS = 400_000  # 0.8 MB of data, 1.1 MB once saved in the notebook as base64
FULL = 65535  # the weight 1.0 as a 16-bit integer


def heads(maps: Any, tokens: Sequence[str], *, layer: int = 0, head: int = 0, query: int | None = None) -> Any:
    """A viewer: sliders for layer and head, a heat map, and the exact weight under the pointer or the cursor.

    Everything is sent to the page once, so the view also works without a kernel, from the state that is saved with
    the notebook. Weights travel as 16-bit integers, in steps of 1/65535: at most 8e-6 off, where float16 would be up
    to 2.4e-4 off at the same size, enough to turn a second decimal.

    Args:
        maps: weights (H, L, L) or (layers, H, L, L), tensor or array, [.., query, key], each row summing to 1.
        tokens: the L tokens; L is at most 64, beyond that the names are too small to read.
        layer, head: shown first.
        query: index of the token whose row is pinned at first; None: no row.

    Returns:
        An anywidget with traits `layer`, `head`, `query` (−1 for none) and `mean` (over heads).
    """
    weights = _weights(maps)
    layers, num_heads, length, _ = weights.shape
    tokens = inputs.tokens("tokens", tokens, length)
    layer, head = _index("layer", layer, layers), _index("head", head, num_heads)
    query = -1 if query is None else _index("query", query, length)
    return _viewer_class()(
        shape=list(weights.shape),
        tokens=tokens,
        data=np.rint(weights * FULL).astype("<u2").tobytes(),
        layer=layer,
        head=head,
        query=query,
    )


def _weights(maps: Any) -> np.ndarray:
    """`maps` as float64 (layers, H, L, L), refused unless every row is a distribution."""
    array, eps = _array(maps)
    if array.ndim == 3:
        array = array[None]
    if array.ndim != 4 or array.shape[2] != array.shape[3] or array.size == 0:
        raise ValueError(
            f"maps: got shape {array.shape}; accepted is (H, L, L) or (layers, H, L, L), not empty: self-attention "
            "over one sentence"
        )
    if array.shape[2] > MAX_TOKENS:
        raise ValueError(
            f"maps: got L = {array.shape[2]} tokens; accepted are up to {MAX_TOKENS}: show a part, maps[..., :64, :64] "
            "with its rows divided by their sums, or use mhalib.plots.attention_map"
        )
    if array.size > MAX_WEIGHTS:
        raise ValueError(
            f"maps: got {array.size:,} weights; accepted are up to {MAX_WEIGHTS:,}, or the saved notebook grows past "
            "1 MB: give fewer layers"
        )
    if not np.isfinite(array).all():
        raise ValueError("maps: got NaN or infinity; accepted are weights from 0 to 1")
    if array.min() < 0:
        raise ValueError(
            f"maps: got {array.min():.3g}; accepted are weights from 0 to 1 (scores go through softmax first)"
        )
    # A distribution whose entries are each rounded to the input's dtype (eps / 2, relative) sums to 1 within eps / 2;
    # the same again and a float32 sum's own rounding for how it was computed.
    tolerance = eps + array.shape[-1] * np.finfo(np.float32).eps
    sums = array.sum(-1)
    worst = np.unravel_index(np.abs(sums - 1).argmax(), sums.shape)
    if abs(sums[worst] - 1) > tolerance:
        where = dict(zip(("layer", "head", "query"), (int(i) for i in worst), strict=True))
        raise ValueError(
            f"maps: the row at {where} sums to {sums[worst]:.4g}; accepted is 1 ± {tolerance:.1g}. Weights after "
            "dropout, and rows that may attend to nothing, do not sum to 1"
        )
    return np.minimum(array, 1.0)


def _array(maps: Any) -> tuple[np.ndarray, float]:
    """`maps` as float64, and the eps of the dtype it came in."""
    import torch

    if not isinstance(maps, torch.Tensor):
        maps = np.asarray(maps)
        if maps.dtype.kind != "f":
            raise TypeError(f"maps: got {maps.dtype}; accepted are floats, the probabilities after softmax")
        return maps.astype(np.float64), float(np.finfo(maps.dtype).eps)
    if not maps.is_floating_point():
        raise TypeError(f"maps: got {maps.dtype}; accepted are floats, the probabilities after softmax")
    return maps.detach().cpu().double().numpy(), torch.finfo(maps.dtype).eps


def _index(name: str, value: int, size: int) -> int:
    (value,) = whole_numbers(0, **{name: value})
    if value >= size:
        raise ValueError(f"{name}: got {value}; accepted is 0 … {size - 1}")
    return value


@functools.cache
def _viewer_class() -> type:
    """The widget class, made when the first viewer is: `import mhalib` must not need anywidget."""
    otherwise = "mhalib.plots.heads_grid draws the same maps without it"
    anywidget: Any = require("anywidget", by="mhalib.widgets.heads", instead=otherwise)
    traitlets: Any = require("traitlets", by="mhalib.widgets.heads", instead=otherwise)
    folder = resources.files("mhalib.course.widgets")

    class Heads(anywidget.AnyWidget):
        _esm = folder.joinpath("heads.js").read_text(encoding="utf-8")
        _css = folder.joinpath("heads.css").read_text(encoding="utf-8")
        shape = traitlets.List().tag(sync=True)
        tokens = traitlets.List().tag(sync=True)
        data = traitlets.Bytes().tag(sync=True)
        layer = traitlets.Int(0).tag(sync=True)
        head = traitlets.Int(0).tag(sync=True)
        query = traitlets.Int(-1).tag(sync=True)
        mean = traitlets.Bool(False).tag(sync=True)

        @traitlets.validate("layer", "head", "query")
        def _in_range(self, proposal: Any) -> int:
            name, value = proposal["trait"].name, proposal["value"]
            low, high = {
                "layer": (0, self.shape[0] - 1),
                "head": (0, self.shape[1] - 1),
                "query": (-1, self.shape[2] - 1),
            }[name]
            if not low <= value <= high:
                raise traitlets.TraitError(f"{name}: got {value}; accepted is {low} … {high}")
            return value

        def __repr__(self) -> str:  # no address in it: nbval compares this text
            layers, num_heads, length, _ = self.shape
            return f"heads(layers={layers}, heads={num_heads}, tokens={length})"

    return Heads
