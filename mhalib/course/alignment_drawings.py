"""Drawings of a recurrent encoder-decoder at work, made from its tensors: each vector is a strip of coloured cells.

The colours run from white (-1 or less) to dark blue (1 or more), so that a print in grey keeps their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mhalib.course import inputs
from mhalib.course.style import ACCENT, COLOUR_MAP, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 0.62  # of a strip, where neighbours stand 1 apart
HEIGHT = 1.5  # of a strip
GREY = "#555555"


def one_vector(source_tokens: Sequence[str], states: Any, target_tokens: Sequence[str], decoder_states: Any) -> Figure:
    """An encoder's states, the last of them as all that goes on, and the decoder's states.

    Args:
        source_tokens, target_tokens: L and T labels.
        states, decoder_states: (L, D) and (T, D), tensor or array.
    """
    states, decoder_states = _vectors("states", states), _vectors("decoder_states", decoder_states)
    source_tokens = inputs.tokens("source_tokens", source_tokens, len(states))
    target_tokens = inputs.tokens("target_tokens", target_tokens, len(decoder_states))
    start = len(states) + 1.5
    columns = start + len(decoder_states)
    with house_style():
        figure, ax = _canvas(columns, 2.9)
        _row(ax, states, source_tokens, 0.0, 0.0)
        _row(ax, decoder_states, target_tokens, start, 0.0, above=True)
        for left in [*range(len(states) - 1), *(start + step for step in range(len(decoder_states) - 1))]:
            _arrow(ax, (left + WIDTH / 2, 0.0), (left + 1 - WIDTH / 2, 0.0))
        _arrow(ax, (len(states) - 1 + WIDTH / 2, 0.0), (start - WIDTH / 2, 0.0), colour=ACCENT, width=3.0)
        ax.text(len(states) + 0.25, 0.2, "one vector", ha="center", color=ACCENT, fontsize=12)
        ax.text((len(states) - 1) / 2, 1.15, "encoder", ha="center", fontsize=12)
        ax.text(start + (len(decoder_states) - 1) / 2, -1.2, "decoder", ha="center", fontsize=12)
    return figure


def one_step(
    source_tokens: Sequence[str], states: Any, weights: Any, context: Any, state: Any, asking: str, word: str
) -> Figure:
    """One step of a decoder that looks back: annotations below, lines as thick as their weights, their average above.

    Args:
        source_tokens: L labels.
        states: (L, D), the annotations.
        weights: (L,), from 0 to 1.
        context: (D,), the average.
        state: (D,), the decoder state that asks; `asking` is its label.
        word: what this step writes.
    """
    states, context, state = _vectors("states", states), _vector("context", context), _vector("state", state)
    source_tokens = inputs.tokens("source_tokens", source_tokens, len(states))
    weights = inputs.weights("weights", inputs.array("weights", weights)[None], 2, 1.0)[0]
    if len(weights) != len(states):
        raise ValueError(f"weights: got {len(weights)} for {len(states)} states; accepted is one for each")
    middle = (len(states) - 1) / 2
    with house_style():
        figure, ax = _canvas(max(len(states) + 0.5, 4.0), 5.6)
        _row(ax, states, source_tokens, 0.0, 0.0)
        top = HEIGHT / 2
        for place, weight in enumerate(weights):
            ends = [place, middle - 0.75], [top, 3.0 - HEIGHT / 2]
            ax.plot(*ends, color=ACCENT, linewidth=0.6 + 8 * weight, solid_capstyle="butt", alpha=0.85, zorder=1)
            ax.text(place, top + 0.12, f"{weight:.2f}", ha="center", fontsize=11, zorder=3, bbox=_PAPER)
        _strip(ax, context, middle - 0.75, 3.0)
        _strip(ax, state, middle + 0.75, 3.0)
        ax.text(middle - 0.75, 3.0 + HEIGHT / 2 + 0.12, f"context for\n{word}", ha="center", fontsize=11)
        ax.text(middle + 0.75, 3.0 + HEIGHT / 2 + 0.12, asking, ha="center", fontsize=11)
    return figure


def terms(pieces: Sequence[Any]) -> Figure:
    """A formula as strips: vectors and numbers with their labels, and the signs that stand between them.

    Args:
        pieces: in order, (label, vector (D,)), (label, number), or a string such as "+" or "→".
    """
    if not pieces:
        raise ValueError("pieces: got none; accepted are (label, vector), (label, number) and signs, one or more")
    with house_style():
        figure, ax = _canvas(sum(0.7 if isinstance(piece, str) else 1.0 for piece in pieces), 2.7)
        left = 0.0
        for piece in pieces:
            if isinstance(piece, str):
                ax.text(left - 0.15, 0.0, piece, ha="center", va="center", fontsize=14)
                left += 0.7
                continue
            label, value = piece
            found = inputs.array(label, value)
            if found.ndim == 0:
                ax.text(left, 0.0, f"{float(found):.2f}", ha="center", va="center", fontsize=13, color=ACCENT)
            else:
                _strip(ax, _vector(label, value), left, 0.0)
            ax.text(left, -HEIGHT / 2 - 0.38, label, ha="center", fontsize=11)
            left += 1.0
    return figure


_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}


def _vectors(name: str, value: Any) -> np.ndarray:
    found = inputs.array(name, value)
    if found.ndim != 2 or found.size == 0 or found.dtype.kind != "f":
        raise ValueError(f"{name}: got {found.dtype} {found.shape}; accepted are floats (L, D), one row a position")
    return found


def _vector(name: str, value: Any) -> np.ndarray:
    found = inputs.array(name, value)
    if found.ndim != 1 or found.size == 0 or found.dtype.kind != "f":
        raise ValueError(f"{name}: got {found.dtype} {found.shape}; accepted are floats (D,)")
    return found


def _canvas(columns: float, rows: float) -> tuple[Figure, Axes]:
    """An empty sheet on which strips stand 1 apart; 0.72 inches for each, so that a label has room."""
    figure, axes = new_figure((0.5 + 0.72 * columns, 0.72 * rows))
    ax = axes[0]
    ax.set_axis_off()
    ax.set_xlim(-0.7, columns - 0.2)
    low = -1.5
    ax.set_ylim(low, low + rows)
    return figure, ax


def _strip(ax: Axes, values: np.ndarray, x: float, y: float) -> None:
    """A column of cells centred at (x, y)."""
    box = (x - WIDTH / 2, x + WIDTH / 2, y - HEIGHT / 2, y + HEIGHT / 2)
    limits = ax.get_xlim(), ax.get_ylim()
    ax.imshow(
        values[:, None], extent=box, cmap=COLOUR_MAP, vmin=-1, vmax=1, aspect="auto", interpolation="nearest", zorder=2
    )
    ax.set(xlim=limits[0], ylim=limits[1])
    ax.plot(
        [box[0], box[1], box[1], box[0], box[0]], [box[2], box[2], box[3], box[3], box[2]], color=GREY, lw=0.8, zorder=3
    )


def _row(ax: Axes, vectors: np.ndarray, labels: Sequence[str], x: float, y: float, above: bool = False) -> None:
    for place, (vector, label) in enumerate(zip(vectors, labels, strict=True)):
        _strip(ax, vector, x + place, y)
        height = y + HEIGHT / 2 + 0.12 if above else y - HEIGHT / 2 - 0.38
        ax.text(x + place, height, label, ha="center", fontsize=12, parse_math=False)


def _arrow(
    ax: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = GREY, width: float = 1.2
) -> None:
    ax.annotate(
        "", end, start, arrowprops={"arrowstyle": "->", "color": colour, "lw": width, "shrinkA": 0, "shrinkB": 0}
    )
