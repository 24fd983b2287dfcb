"""`slide`: a figure that is drawn again when a number moves."""

from __future__ import annotations

import base64
import functools
import html
import math
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from mhalib.arguments import is_number, is_whole, require
from mhalib.course.style import check_alt, close, png

SLOW_S = 0.15  # a drawing slower than this waits until the slider is let go


def slide(draw: Callable[..., Any], **ranges: Sequence[Any]) -> Any:
    """Sliders around a drawing function: `slide(draw, temperature=(0.1, 3.0, 0.1, 1.0))`.

    The figure is drawn once at the start, and each time a slider is let go (while it moves, when drawing takes less
    than 0.15 s). The picture is a PNG inside the page, so that it is there without a kernel, in the saved notebook;
    moving a slider needs the kernel. An error of the first drawing is raised; later ones are shown in place of the
    picture.

    Args:
        draw: called as `draw(name=value, …)`; returns a matplotlib figure, or (figure, alt) with a sentence that
            says what it shows. Without one, the alternative text names the values.
        ranges: for each argument of `draw`, (low, high, step) or (low, high, step, start), all integers or with
            floats; start is `low` if not given. Or a list of choices, the first one at the start.

    Returns:
        An ipywidgets box; `.controls` is a dictionary of the sliders, `.image` the HTML widget with the picture.
    """
    if not callable(draw):
        raise TypeError(f"draw: got {type(draw).__name__}; accepted is a function that returns a matplotlib figure")
    if not ranges:
        raise TypeError("ranges: got none; accepted is name=(low, high, step) or name=[choices], one or more")
    plans = {name: _plan(name, given) for name, given in ranges.items()}
    slide_class, ipywidgets = _slide_class()
    controls = {name: _control(ipywidgets, name, plan) for name, plan in plans.items()}
    return slide_class(draw, controls, plans)


def _plan(name: str, given: Sequence[Any]) -> dict[str, Any]:
    """A range, checked: {"choices": […]} or {"low", "high", "step", "start", "digits"} (digits None: integers)."""
    accepted = "accepted is (low, high, step), (low, high, step, start) or a list of choices"
    if isinstance(given, list):
        if len(given) < 2:
            raise ValueError(f"{name}: got {len(given)} choices; accepted is a list of 2 or more")
        return {"choices": given}
    if not isinstance(given, tuple) or len(given) not in (3, 4):
        raise TypeError(f"{name}: got {given!r}; {accepted}")
    if not all(is_number(n) for n in given):
        raise TypeError(f"{name}: got {given!r}, not all numbers; {accepted}")
    whole = all(is_whole(n) for n in given)
    plain = [int(n) if whole else float(n) for n in given]
    low, high, step = plain[:3]
    start = plain[3] if len(plain) == 4 else low
    if not (-math.inf < low <= start <= high < math.inf and low < high and 0 < step < math.inf):
        raise ValueError(f"{name}: got {given!r}; accepted is low < high, step > 0, and start between them, all finite")
    digits = None if whole else max(_decimals(n) for n in plain)
    return {"low": low, "high": high, "step": step, "start": start, "digits": digits}


def _decimals(number: float) -> int:
    """How many decimals the shortest text of the number has: 12 for 1e-12."""
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(0, -int(exponent))


def _readout(plan: dict[str, Any]) -> str:
    """d3's format of a range with floats: its decimals, or with an exponent where a number below 1e-4 may come."""
    sizes = [abs(plan[part]) for part in ("low", "high", "step", "start") if plan[part]]
    if min(sizes) >= 1e-4:
        return f".{plan['digits']}f"
    significant = plan["digits"] + math.floor(math.log10(max(sizes)))  # behind the point, of the largest number
    return f".{min(significant, 16)}e"  # a float has 17 digits


def _control(ipywidgets: Any, name: str, plan: dict[str, Any]) -> Any:
    look = {"description": name, "style": {"description_width": "initial"}}
    if "choices" in plan:
        numeric = all(is_number(choice) for choice in plan["choices"])
        control = ipywidgets.SelectionSlider if numeric else ipywidgets.Dropdown
        return control(options=plan["choices"], value=plan["choices"][0], **look)
    limits = {"min": plan["low"], "max": plan["high"], "step": plan["step"], "value": plan["start"], **look}
    if plan["digits"] is None:
        return ipywidgets.IntSlider(**limits)
    return ipywidgets.FloatSlider(readout_format=_readout(plan), **limits)


@functools.cache
def _slide_class() -> tuple[type, Any]:
    """The box class and the ipywidgets module, when the first slider is made."""
    otherwise = "calling the drawing function yourself gives the same figure"
    ipywidgets: Any = require("ipywidgets", by="mhalib.widgets.slide", instead=otherwise)

    class Slide(ipywidgets.VBox):
        def __init__(self, draw: Callable[..., Any], controls: dict[str, Any], plans: dict[str, dict[str, Any]]):
            self._draw, self.controls, self._plans = draw, controls, plans
            self.image = ipywidgets.HTML()
            began = time.perf_counter()
            self.image.value = self._picture()
            slow = time.perf_counter() - began > SLOW_S
            for control in controls.values():
                if hasattr(control, "continuous_update"):
                    control.continuous_update = not slow
                control.observe(self._redraw, names="value")
            super().__init__([*controls.values(), self.image])
            self.add_class("mhalib-slide")

        @property
        def values(self) -> dict[str, Any]:
            """What `draw` is called with: floats are rounded to the decimals of their range."""
            found = {}
            for name, control in self.controls.items():
                digits = self._plans[name].get("digits")
                found[name] = control.value if digits is None else round(control.value, digits)
            return found

        def _redraw(self, change: Any) -> None:
            try:
                self.image.value = self._picture()
            except Exception as error:  # shown to the reader: a widget's callback has no cell to fail in
                text = html.escape(f"{type(error).__name__}: {error}")
                at = html.escape(_describe(self.values))
                self.image.value = f'<pre role="alert">draw({at}) failed\n{text}</pre>'

        def _picture(self) -> str:
            made = self._draw(**self.values)
            figure: Any
            figure, alt = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
            if not hasattr(figure, "savefig"):
                raise TypeError(
                    f"draw: returned {type(made).__name__}; accepted is a matplotlib figure, or (figure, alt)"
                )
            alt = f"{_name(self._draw)}, drawn at {_describe(self.values)}" if alt is None else check_alt(alt)
            width = round(figure.get_size_inches()[0] * 96)
            data = base64.b64encode(png(figure)).decode("ascii")
            close(figure)
            style = f"width:{width}px;max-width:100%;height:auto"
            return f'<img alt="{html.escape(alt)}" style="{style}" src="data:image/png;base64,{data}">'

        def __repr__(self) -> str:  # no address in it, and no picture: nbval compares this text
            return f"slide({_name(self._draw)}, {_describe(self.values)})"

    return Slide, ipywidgets


def _describe(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _name(draw: Callable[..., Any]) -> str:
    name = getattr(draw, "__name__", type(draw).__name__)
    return "figure" if name == "<lambda>" else name
