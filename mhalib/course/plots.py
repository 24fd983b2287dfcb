"""Static figures in one house style: attention maps, heads side by side, masks, lines. Each is shown with alt text.

Colours run from white to dark blue with steadily falling lightness, so that a print in grey keeps the order; lines
differ by dash and marker as well as by colour. matplotlib's global settings stay as they are.

Tokens, titles and labels are data and are drawn letter by letter: "$5-$6" is a price, not mathematics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mhalib.arguments import check_flags, number, whole_numbers
from mhalib.course import inputs
from mhalib.course.style import ACCENT, COLOUR_MAP, LINES, house_style, new_figure, png, show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["attention_map", "heads_grid", "lines", "mask_grid", "png", "show"]


def attention_map(
    weights: Any,
    query_tokens: Sequence[str],
    key_tokens: Sequence[str] | None = None,
    *,
    title: str | None = None,
    mark: tuple[int, int] | None = None,
    values: bool = False,
    vmax: float = 1.0,
) -> Figure:
    """One head's weights: a row for each query, a column for each key, dark where the weight is large.

    Args:
        weights: (Lq, Lk), tensor or array, 0 … `vmax`.
        query_tokens, key_tokens: the labels; None for keys: those of the queries.
        title: above the map.
        mark: (query, key) to frame.
        values: write each weight into its cell, with two decimals (up to 12 × 12).
        vmax: the weight drawn darkest.
    """
    vmax = inputs.scale_end(vmax)
    maps = inputs.weights("weights", weights, 2, vmax)
    rows, columns = maps.shape
    query_tokens = inputs.tokens("query_tokens", query_tokens, rows)
    key_tokens = inputs.tokens("key_tokens", query_tokens if key_tokens is None else key_tokens, columns)
    mark = inputs.mark(mark, maps.shape)
    check_flags(values=values)
    if values and max(rows, columns) > 12:
        raise ValueError(f"values: got {rows} × {columns} cells; accepted are up to 12 × 12, more is unreadable")
    cell = 0.62 if values else 0.26
    size = (max(3.6, cell * columns + 2.6), max(2.8, cell * rows + 1.7))
    with house_style():
        figure, axes = new_figure(size)
        image = _heat(axes[0], maps, vmax, mark)
        axes[0].set_yticks(range(rows), query_tokens, parse_math=False)
        axes[0].set_xticks(range(columns), key_tokens, parse_math=False, rotation=90)
        axes[0].set(ylabel="query: attends from", xlabel="key: attends to")
        axes[0].set_title(title or "", parse_math=False)
        if values:
            for (row, column), weight in np.ndenumerate(maps):
                ink = "white" if weight > 0.55 * vmax else "black"
                axes[0].text(column, row, f"{weight:.2f}", ha="center", va="center", color=ink, fontsize=10)
        figure.colorbar(image, ax=axes[0], label="weight", shrink=0.8)
    return figure


def heads_grid(
    maps: Any,
    tokens: Sequence[str],
    key_tokens: Sequence[str] | None = None,
    *,
    titles: Sequence[str] | None = None,
    columns: int = 4,
    mark: tuple[int, int] | None = None,
    vmax: float = 1.0,
) -> Figure:
    """Small multiples, one map a head, all with the same scale of colours.

    Up to 8 tokens are named on the axes of every map. With more, the names would be too small to read: then the
    axes name only the tokens of `mark`, and without it count positions.

    Args:
        maps: (H, Lq, Lk), tensor or array, 0 … `vmax`.
        tokens, key_tokens: labels of queries and keys; None for keys: those of the queries.
        titles: one for each head; None is "head 0", "head 1", …; with `mark` the marked weight follows it.
        columns: maps in a row.
        mark: (query, key) to frame in every map.
        vmax: the weight drawn darkest.
    """
    vmax = inputs.scale_end(vmax)
    maps = inputs.weights("maps", maps, 3, vmax)
    heads, lq, lk = maps.shape
    tokens = inputs.tokens("tokens", tokens, lq)
    key_tokens = inputs.tokens("key_tokens", tokens if key_tokens is None else key_tokens, lk)
    mark = inputs.mark(mark, (lq, lk))
    titles = [f"head {head}" for head in range(heads)] if titles is None else list(titles)
    if len(titles) != heads:
        raise ValueError(f"titles: got {len(titles)} for {heads} heads; accepted is one title for each head")
    columns = min(heads, *whole_numbers(columns=columns))
    rows = math.ceil(heads / columns)
    named = max(lq, lk) <= 8
    with house_style():
        figure, axes = new_figure((1.9 + 1.95 * columns, (1.8 if named else 1.0) + 2.2 * rows), rows, columns)
        for ax in axes[heads:]:
            ax.set_axis_off()
        images = [_heat(ax, weights, vmax, mark) for ax, weights in zip(axes, maps, strict=False)]
        for head, ax in enumerate(axes[:heads]):
            shown = "" if mark is None else f": {maps[head][mark]:.2f}"
            ax.set_title(f"{titles[head]}{shown}", parse_math=False)
            _grid_ticks(ax, tokens, key_tokens, mark, named)
            left, bottom = head % columns == 0, head + columns >= heads  # names on the rim only
            ax.tick_params(left=left, labelleft=left, bottom=bottom, labelbottom=bottom)
        figure.supxlabel("key: attends to", fontsize=12)
        figure.supylabel("query: attends from", fontsize=12)
        figure.colorbar(images[0], ax=axes, label="weight", shrink=0.7 if rows > 1 else 0.9, aspect=30)
    return figure


def mask_grid(masks: Mapping[str, Any], *, columns: int = 3) -> Figure:
    """Masks side by side: dark where the query may attend (True), white where it may not; dead rows are hatched.

    Args:
        masks: title → bool mask (Lq, Lk), True = may attend.
        columns: masks in a row.
    """
    if not isinstance(masks, Mapping) or not masks:
        raise TypeError("masks: accepted is a non-empty dictionary, title → bool mask (Lq, Lk)")
    arrays = {str(title): inputs.mask(title, mask) for title, mask in masks.items()}
    columns = min(len(arrays), *whole_numbers(columns=columns))
    rows = math.ceil(len(arrays) / columns)
    with house_style():
        figure, axes = new_figure((0.6 + 2.7 * columns, 0.8 + 2.7 * rows), rows, columns)
        for ax in axes[len(arrays) :]:
            ax.set_axis_off()
        for ax, (title, mask) in zip(axes, arrays.items(), strict=False):
            lq, lk = mask.shape
            ax.imshow(mask, cmap=COLOUR_MAP, vmin=0, vmax=1.25, interpolation="nearest")
            for row in np.flatnonzero(~mask.any(1)):
                ax.axhspan(row - 0.5, row + 0.5, fill=False, hatch="///", edgecolor=ACCENT, linewidth=0)
            ax.set_xticks(np.arange(0.5, lk - 1), minor=True)
            ax.set_yticks(np.arange(0.5, lq - 1), minor=True)
            ax.grid(which="minor", color="#999999", linewidth=0.7)
            ax.tick_params(which="minor", length=0)
            ax.set_xticks(_positions(lk))
            ax.set_yticks(_positions(lq))
            ax.spines[:].set_visible(True)
            ax.set_title(title, parse_math=False)
        figure.supxlabel("key position (dark: may attend)", fontsize=12)
        figure.supylabel("query position", fontsize=12)
    return figure


def lines(
    x: Any,
    series: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    title: str | None = None,
    log_x: bool = False,
    log_y: bool = False,
    mark_x: float | None = None,
    mark_label: str | None = None,
    joined: bool = True,
) -> Figure:
    """Lines over one x, told apart by dash, marker and colour.

    Args:
        x: (N,) numbers.
        series: label → (N,) numbers; up to six.
        xlabel, ylabel, title: with the unit where there is one.
        log_x, log_y: logarithmic axes; an x of up to eight values is then labelled at just these.
        mark_x, mark_label: a vertical line at this x, and what it means.
        joined: False draws the points alone, for an x without an order, such as the number of a head.
    """
    x = inputs.numbers("x", x)
    check_flags(log_x=log_x, log_y=log_y, joined=joined)
    if not isinstance(series, Mapping) or not 1 <= len(series) <= len(LINES):
        raise ValueError(f"series: accepted is a dictionary of 1 to {len(LINES)} lines, label → numbers")
    for name, label in (("xlabel", xlabel), ("ylabel", ylabel)):
        if not isinstance(label, str) or not label.strip():
            raise ValueError(f"{name}: got {label!r}; accepted is what the axis shows, with its unit")
    with house_style():
        figure, axes = new_figure((6.6, 4.0))
        named = []
        for (label, y), (colour, dash, marker) in zip(series.items(), LINES, strict=False):
            y = inputs.numbers(f"series[{label!r}]", y)
            if len(y) != len(x):
                raise ValueError(f"series[{label!r}]: got {len(y)} numbers for {len(x)} values of x")
            every = max(1, len(x) // 12) if joined else 1
            dash = dash if joined else "none"
            named += axes[0].plot(x, y, color=colour, linestyle=dash, marker=marker, markevery=every, label=str(label))
        if mark_x is not None:
            mark_x = number("mark_x", mark_x, "a finite number")
            line = axes[0].axvline(mark_x, color="#555555", linewidth=1.5, linestyle=(0, (2, 2)), label=mark_label)
            named += [line] if mark_label else []
        axes[0].set_xlabel(xlabel, parse_math=False)
        axes[0].set_ylabel(ylabel, parse_math=False)
        axes[0].set_title(title or "", parse_math=False)
        if log_x:
            axes[0].set_xscale("log")
            if len(x) <= 8:
                axes[0].set_xticks(x, [f"{value:g}" for value in x], minor=False)
                axes[0].set_xticks([], minor=True)
        elif x.dtype.kind in "iu" and len(x) <= 16 and (np.diff(x) == 1).all():
            axes[0].set_xticks(x)  # things that are counted: no ticks between them
        if log_y:
            axes[0].set_yscale("log")
        axes[0].grid(color="#dddddd", linewidth=0.8)
        axes[0].set_axisbelow(True)
        if len(series) > 1 or mark_label:
            _legend(axes[0], named)
    return figure


def _legend(ax: Axes, named: list[Any]) -> None:
    """A legend of these lines by their labels, letter by letter; matplotlib would leave out one that begins with _."""
    legend = ax.legend(named, [str(place) for place in range(len(named))], handlelength=3.5)
    for text, line in zip(legend.get_texts(), named, strict=True):
        text.set(text=line.get_label(), parse_math=False)


def _heat(ax: Axes, weights: np.ndarray, vmax: float, mark: tuple[int, int] | None) -> Any:
    from matplotlib.patches import Rectangle

    image = ax.imshow(weights, cmap=COLOUR_MAP, vmin=0, vmax=vmax, interpolation="nearest")
    ax.spines[:].set_visible(True)
    if mark is not None:
        row, column = mark
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=ACCENT, linewidth=2))
    return image


def _grid_ticks(ax: Axes, tokens: list[str], key_tokens: list[str], mark: tuple[int, int] | None, named: bool) -> None:
    if named:
        ax.set_yticks(range(len(tokens)), tokens, parse_math=False)
        ax.set_xticks(range(len(key_tokens)), key_tokens, parse_math=False, rotation=90)
    elif mark is not None:
        ax.set_yticks([mark[0]], [tokens[mark[0]]], parse_math=False)
        ax.set_xticks([mark[1]], [key_tokens[mark[1]]], parse_math=False)
    else:
        ax.set_yticks(_positions(len(tokens)))
        ax.set_xticks(_positions(len(key_tokens)))


def _positions(length: int) -> list[int]:
    step = next((s for s in (1, 2, 5, 10, 20, 50) if length / s <= 8), 100)
    return list(range(0, length, step))
