"""How every figure of the course looks and how it is shown: white, opaque, legible, and never without alt text."""

from __future__ import annotations

import base64
import contextlib
import html
import io
import re
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mhalib.arguments import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR_MAP = "Blues"
ACCENT = "#c44e00"
DPI = 144  # 1.5 device pixels for each CSS pixel at 96 to the inch
#: (colour, dash, marker) of the first, second, … line: Okabe and Ito's palette from dark to light.
LINES = (
    ("#000000", "-", "o"),
    ("#0072b2", "--", "s"),
    ("#d55e00", "-.", "^"),
    ("#009e73", ":", "D"),
    ("#cc79a7", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("#56b4e9", (0, (8, 3)), "P"),
)
LETTERS = "DejaVu Sans"  # ships with matplotlib: the same letters on every machine
#: For the letters that it lacks, the first of these that has them and is installed; Korean first, then by system.
MORE_LETTERS = (
    *("Noto Sans CJK KR", "Noto Sans KR", "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Noto Sans SC"),
    *("NanumGothic", "Nanum Gothic", "Source Han Sans", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "IPAexGothic"),
    *("Apple SD Gothic Neo", "AppleGothic", "Hiragino Sans", "Hiragino Sans GB", "PingFang SC", "Arial Unicode MS"),
    *("Malgun Gothic", "Microsoft YaHei", "Yu Gothic", "SimHei"),
    *("Noto Sans Devanagari", "Lohit Devanagari", "Kohinoor Devanagari", "Nirmala UI", "Mangal"),
)
STYLE = {
    "font.size": 12,
    "axes.titlesize": 13,
    "axes.labelsize": 12,
    "axes.edgecolor": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    "figure.constrained_layout.use": True,
}
# Never shown, always read: the one form of "for screen readers only" that JupyterLab's sanitiser lets through.
HIDDEN = "position:absolute;width:1px;height:1px;overflow:hidden;clip:rect(0px,0px,0px,0px)"


def show(figure: Figure, alt: str) -> None:
    """Display `figure` as a PNG with the text alternative `alt`, and close it.

    `alt` goes into `text/plain` (which nbval compares), into the image's metadata (read by nbconvert's classic
    template) and into a line of text that is read aloud but not seen: JupyterLab 4.6 and nbconvert's default template
    build their images without any alternative, whatever the metadata say. Without a notebook, `alt` is printed.

    Args:
        figure: a matplotlib figure.
        alt: one or two sentences that say what the figure shows, for those who do not see it.
    """
    alt = check_alt(alt)
    data = png(figure)
    width, height = (round(size * 96) for size in figure.get_size_inches())
    close(figure)
    from_ipython = sys.modules.get("IPython")
    if from_ipython is None or from_ipython.get_ipython() is None:
        print(alt)
        return
    from IPython.display import display

    bundle = {"image/png": base64.b64encode(data).decode("ascii"), "text/plain": alt}
    metadata = {"image/png": {"alt": alt, "width": width, "height": height}}
    display({"text/html": f'<div style="{HIDDEN}">Figure: {html.escape(alt)}</div>'}, raw=True)
    display(bundle, metadata=metadata, raw=True)


def png(figure: Figure) -> bytes:
    """The figure as PNG: white and opaque, and the same bytes each time (no date, no software name)."""
    if not hasattr(figure, "savefig"):
        raise TypeError(f"figure: got {type(figure).__name__}; accepted is a matplotlib figure")
    buffer = io.BytesIO()
    with house_style(), _one_warning_of_missing_letters():
        figure.savefig(buffer, format="png", dpi=DPI, facecolor="white", transparent=False, metadata={"Software": None})
    return buffer.getvalue()


def check_alt(alt: str) -> str:
    """`alt` without surrounding space; refused when it says nothing."""
    if not isinstance(alt, str):
        raise TypeError(f"alt: got {type(alt).__name__}; accepted is a sentence that says what the figure shows")
    if not alt.strip():
        raise ValueError("alt: got an empty text; accepted is a sentence that says what the figure shows")
    return " ".join(alt.split())


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """matplotlib's defaults plus `STYLE`, whatever the reader has set; put back afterwards.

    Of the reader's own settings the fonts are kept, behind all others: they draw what no other font has.
    """
    matplotlib: Any = require("matplotlib", by="mhalib.plots")
    keep = ("backend", "interactive", "toolbar", "webagg", "tk.", "timezone", "date.epoch", "savefig.directory")
    defaults = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith(keep)}
    with matplotlib.rc_context({**defaults, **STYLE, "font.family": _fonts(matplotlib.rcParams)}):
        yield


def _fonts(settings: Any) -> list[str]:
    """`LETTERS` first, then what is installed of `MORE_LETTERS` and of the fonts in the reader's settings."""
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}  # of any other name, matplotlib complains at each letter
    wanted = (LETTERS, *MORE_LETTERS, *settings["font.family"], *settings["font.sans-serif"])
    return [name for name in dict.fromkeys(wanted) if name in installed]


@contextlib.contextmanager
def _one_warning_of_missing_letters() -> Iterator[None]:
    """One warning for all letters that no font has, where matplotlib gives one for each; others pass unchanged."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    missing: dict[str, None] = {}  # in the order in which they came
    for warning in caught:
        glyph = re.match(r"Glyph (\d+) .* missing from", str(warning.message))
        if glyph:
            missing[chr(int(glyph[1]))] = None
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if missing:
        warnings.warn(
            f"no installed font has {''.join(missing)}, drawn as boxes; install one that has, for example "
            "Noto Sans CJK or Noto Sans Devanagari, and start the kernel again",
            stacklevel=4,
        )


def new_figure(size: tuple[float, float], rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure outside pyplot: nothing global holds it, and no notebook displays it by itself."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def close(figure: Figure) -> None:
    """Let go of a figure that pyplot may hold."""
    if "matplotlib.pyplot" in sys.modules:  # a reader's own plt.figure(): or it would be drawn a second time
        sys.modules["matplotlib.pyplot"].close(figure)
