"""Live views: what the page gets is what was given, what cannot be shown is refused, and nothing needs an address."""

import base64
import html.parser
import re
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
import torch
import traitlets
from hypothesis import assume, given
from hypothesis import strategies as st

from mhalib import plots, widgets
from mhalib.course.widgets import sliders
from mhalib.course.widgets.heads import FULL

TOKENS = ["[CLS]", "it", "has", "money", "[SEP]"]


def distributions(*shape, seed=0, dtype=torch.float32):
    return torch.softmax(3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype), -1)


def received(widget):
    """The weights as the page reads them."""
    return np.frombuffer(widget.data, dtype="<u2").reshape(widget.shape) / FULL


# The viewer of heads


def test_the_page_receives_the_maps_to_half_a_step():
    maps = distributions(2, 3, 5, 5)
    widget = widgets.heads(maps, TOKENS, layer=1, head=2, query=3)
    assert widget.shape == [2, 3, 5, 5]
    assert widget.tokens == TOKENS
    assert (widget.layer, widget.head, widget.query, widget.mean) == (1, 2, 3, False)
    assert np.abs(received(widget) - maps.double().numpy()).max() <= 0.5 / FULL * (1 + 1e-9)


def test_sixteen_bit_integers_are_nearer_than_float16():
    maps = distributions(4, 12, 19, 19)
    error = np.abs(received(widgets.heads(maps, ["w"] * 19)) - maps.double().numpy()).max()
    half = (maps.half().double() - maps.double()).abs().max().item()
    assert error < 8e-6 < 1e-4 < half < 2.5e-4


def test_the_script_reads_what_python_writes():
    """Little-endian, 65535 = 1: the constants of the two sides agree."""
    widget = widgets.heads(torch.eye(2)[None], ["a", "b"])
    assert widget.data == bytes([255, 255, 0, 0, 0, 0, 255, 255])
    assert "getUint16(2 * n, true) / 65535" in widget._esm


def test_three_dimensions_are_one_layer():
    assert widgets.heads(distributions(3, 5, 5), TOKENS).shape == [1, 3, 5, 5]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_weights_rounded_to_any_float_type_are_accepted(dtype):
    maps = distributions(2, 64, 64, dtype=torch.float64).to(dtype)
    assert np.abs(received(widgets.heads(maps, ["w"] * 64)) - maps.double().numpy()).max() <= 0.51 / FULL


def test_arrays_of_numpy_are_accepted():
    maps = distributions(2, 5, 5).numpy()
    assert np.abs(received(widgets.heads(maps, TOKENS))[0] - maps).max() <= 0.51 / FULL


def halved():
    maps = distributions(2, 2, 5, 5)
    maps[1, 0, 3] *= 0.5
    return maps


def negative():
    maps = distributions(2, 5, 5)
    maps[0, 2] = torch.tensor([0.5, 0.5, 0.5, -0.5, 0.0])  # sums to 1 all the same
    return maps


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: widgets.heads(halved(), TOKENS), ValueError, "row at {'layer': 1, 'head': 0, 'query': 3} sums to 0.5"),
        (lambda: widgets.heads(torch.zeros(1, 5, 5), TOKENS), ValueError, "rows that may attend to nothing"),
        (lambda: widgets.heads(negative(), TOKENS), ValueError, "maps: got -"),
        (lambda: widgets.heads(torch.full((1, 5, 5), torch.nan), TOKENS), ValueError, "NaN or infinity"),
        (lambda: widgets.heads(torch.randn(2, 5, 5), TOKENS), ValueError, "softmax first"),
        (lambda: widgets.heads(torch.ones(2, 5, 5, dtype=torch.int64), TOKENS), TypeError, "maps: got torch.int64"),
        (lambda: widgets.heads(np.ones((2, 5, 5), bool), TOKENS), TypeError, "maps: got bool"),
        (lambda: widgets.heads(distributions(5, 5), TOKENS), ValueError, r"maps: got shape \(5, 5\)"),
        (lambda: widgets.heads(distributions(2, 5, 4), TOKENS), ValueError, r"maps: got shape \(1, 2, 5, 4\)"),
        (lambda: widgets.heads(distributions(0, 5, 5), TOKENS), ValueError, "not empty"),
        (
            lambda: widgets.heads(distributions(1, 65, 65), ["w"] * 65),
            ValueError,
            "L = 65 tokens; accepted are up to 64",
        ),
        (lambda: widgets.heads(distributions(98, 64, 64), ["w"] * 64), ValueError, "maps: got 401,408 weights"),
        (lambda: widgets.heads(distributions(2, 5, 5), TOKENS[:4]), ValueError, "tokens: got 4 for a map of 5"),
        (lambda: widgets.heads(distributions(2, 5, 5), "abcde"), TypeError, "tokens: got one string"),
        (lambda: widgets.heads(distributions(2, 5, 5), TOKENS, head=2), ValueError, "head: got 2; accepted is 0 … 1"),
        (lambda: widgets.heads(distributions(2, 5, 5), TOKENS, layer=1), ValueError, "layer: got 1; accepted is 0 … 0"),
        (lambda: widgets.heads(distributions(2, 5, 5), TOKENS, head=-1), ValueError, "head: got -1"),
        (lambda: widgets.heads(distributions(2, 5, 5), TOKENS, query=5), ValueError, "query: got 5; accepted is 0 … 4"),
    ],
)
def test_heads_refuses(call, error, message):
    with pytest.raises(error, match=re.escape(message) if "{" in message else message):
        call()


def test_a_selection_out_of_range_is_refused_later_too():
    widget = widgets.heads(distributions(2, 5, 5), TOKENS)
    with pytest.raises(traitlets.TraitError, match="head: got 2; accepted is 0 … 1"):
        widget.head = 2
    widget.head, widget.query = 1, 4
    assert (widget.head, widget.query) == (1, 4)


def test_the_text_of_a_viewer_has_no_address():
    maps = distributions(2, 3, 5, 5)
    first, second = widgets.heads(maps, TOKENS), widgets.heads(maps, TOKENS)
    assert repr(first) == repr(second) == "heads(layers=2, heads=3, tokens=5)"
    bundle = first._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == repr(first)


def test_the_script_and_the_style_load_nothing_from_elsewhere():
    widget = widgets.heads(distributions(2, 5, 5), TOKENS)
    addresses = set(re.findall(r"https?://[^\"' ]+", widget._esm + widget._css))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"\bimport\b|\bfetch\(|@import|url\(", widget._esm + widget._css)


# Sliders


class Images(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.found.append(dict(attrs))


def image(widget):
    (found,) = Images(widget.image.value).found
    return found


def figure(slope=1.0, count=2):
    return plots.lines(range(1, count + 1), {"line": [slope * n for n in range(count)]}, xlabel="x", ylabel="y")


def draw(slope, count):
    return figure(slope, count), f'slope {slope} & "{count}" points'


def test_a_picture_is_there_from_the_start_with_its_alt_text():
    widget = widgets.slide(draw, slope=(0.5, 2.0, 0.5, 1.5), count=(2, 5, 1))
    assert image(widget)["alt"] == 'slope 1.5 & "2" points'
    data = image(widget)["src"].removeprefix("data:image/png;base64,")
    assert base64.b64decode(data) == plots.png(figure(1.5, 2))
    assert "mhalib-slide" in widget._dom_classes


def test_moving_a_slider_draws_again():
    widget = widgets.slide(draw, slope=(0.5, 2.0, 0.5), count=(2, 5, 1))
    widget.controls["count"].value = 4
    assert image(widget)["alt"] == 'slope 0.5 & "4" points'
    assert base64.b64decode(image(widget)["src"].partition(",")[2]) == plots.png(figure(0.5, 4))


def test_without_an_alt_text_the_values_are_named():
    def parabola(n):
        return figure(count=n)

    widget = widgets.slide(parabola, n=(2, 4, 1))
    widget.controls["n"].value = 3
    assert image(widget)["alt"] == "parabola, drawn at n=3"


def test_an_empty_alt_text_is_refused():
    with pytest.raises(ValueError, match="alt: got an empty text"):
        widgets.slide(lambda n: (figure(), " "), n=(1, 3, 1))


def test_values_are_those_of_the_range():
    seen = []

    def note(t, n, kind, size):
        seen.append((t, n, kind, size))
        return figure()

    widget = widgets.slide(note, t=(0.1, 1.0, 0.1), n=(1, 9, 2, 3), kind=["raw", "scaled"], size=[4, 1024])
    assert seen == [(0.1, 3, "raw", 4)]
    widget.controls["t"].value = 0.1 + 0.1 + 0.1  # 0.30000000000000004
    widget.controls["kind"].value = "scaled"
    widget.controls["size"].value = 1024
    assert seen[1:] == [(0.3, 3, "raw", 4), (0.3, 3, "scaled", 4), (0.3, 3, "scaled", 1024)]
    assert isinstance(seen[-1][1], int)


def test_small_steps_show_all_their_decimals():
    widget = widgets.slide(lambda eps: figure(), eps=(0.0, 0.01, 0.0005))
    assert widget.controls["eps"].readout_format == ".4f"
    widget.controls["eps"].value = 0.0015
    assert widget.values == {"eps": 0.0015}


def decimals(draw, low, high):
    """A decimal of at most six digits, as a reader writes it."""
    return Decimal(draw(st.integers(low, high))).scaleb(draw(st.integers(-15, 0)))


@st.composite
def ranges(draw):
    """(low, high, step) as decimals on one grid, and how many steps to go."""
    low, step = decimals(draw, -999, 999), decimals(draw, 1, 99)
    count = draw(st.integers(1, 1000))
    return low, step, count, draw(st.integers(0, count))


@given(ranges())
def test_a_slider_stands_for_the_decimals_of_its_range_and_shows_all_their_digits(given):
    """What the page sends back is low + n · step in floats; what is drawn is the number that a reader would write."""
    low, step, count, n = given
    high, value = low + count * step, low + n * step
    numbers = [abs(x) for x in (low, high, step) if x]
    assume(max(numbers) / min(numbers) < 10**9)  # beyond, a float itself no longer tells the steps apart
    plan = sliders._plan("eps", (float(low), float(high), float(step)))
    sent = float(low) + n * float(step)
    assert round(sent, plan["digits"]) == float(value)
    form = sliders._readout(plan)
    assert float(format(round(sent, plan["digits"]), form)) == float(value)  # Python reads d3's formats .nf and .ne
    assert form.endswith("e") == (min(numbers) < Decimal("1e-4"))


@pytest.mark.parametrize(
    ("low", "high", "step", "readout"),
    [
        (1e-12, 5e-12, 1e-12, ".0e"),
        (1e-12, 1e-11, 5e-13, ".2e"),
        (0.0, 1e-4, 1e-5, ".1e"),
        (1e-30, 3e-30, 1e-30, ".0e"),
    ],
)
def test_very_small_numbers_are_drawn_as_they_are_and_shown_with_an_exponent(low, high, step, readout):
    seen = []

    def note(eps):
        seen.append(eps)
        return figure()

    widget = widgets.slide(note, eps=(low, high, step))
    widget.controls["eps"].value = low + step + step
    assert seen == [low, float(Decimal(repr(low)) + 2 * Decimal(repr(step)))]
    assert widget.controls["eps"].readout_format == readout


def test_numbers_of_numpy_are_numbers_of_a_range():
    whole = widgets.slide(draw, slope=(np.float32(0.5), 2, np.float64(0.5)), count=(np.int64(2), np.int32(5), 1))
    assert whole.values == {"slope": 0.5, "count": 2}
    assert [type(value) for value in whole.values.values()] == [float, int]


def test_an_error_while_moving_is_shown_and_the_next_good_value_cures_it():
    def fragile(n):
        if n == 3:
            raise ValueError("three is <refused>")
        return figure(count=n)

    widget = widgets.slide(fragile, n=(2, 5, 1))
    widget.controls["n"].value = 3
    assert 'role="alert"' in widget.image.value
    assert "ValueError: three is &lt;refused&gt;" in widget.image.value
    assert "n=3" in widget.image.value
    widget.controls["n"].value = 4
    assert image(widget)["alt"] == "fragile, drawn at n=4"


def test_an_error_of_the_first_drawing_is_raised():
    with pytest.raises(ZeroDivisionError):
        widgets.slide(lambda n: 1 / n, n=(0, 3, 1))


def test_a_slow_drawing_waits_until_the_slider_is_let_go(monkeypatch):
    clock = iter([0.0, 1.0, 2.0, 2.01])
    monkeypatch.setattr("mhalib.course.widgets.sliders.time.perf_counter", lambda: next(clock))
    slow = widgets.slide(lambda n: figure(), n=(1, 3, 1))
    fast = widgets.slide(lambda n: figure(), n=(1, 3, 1))
    assert slow.controls["n"].continuous_update is False
    assert fast.controls["n"].continuous_update is True


def test_pyplot_figures_are_closed():
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    widget = widgets.slide(lambda n: plt.figure(), n=(1, 3, 1))
    widget.controls["n"].value = 2
    assert plt.get_fignums() == []


def test_the_text_of_a_slider_has_no_address_and_no_picture():
    widget = widgets.slide(draw, slope=(0.5, 2.0, 0.5), count=(2, 5, 1))
    assert repr(widget) == "slide(draw, slope=0.5, count=2)"
    assert repr(widgets.slide(lambda n: figure(), n=["a", "b"])) == "slide(figure, n='a')"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: widgets.slide(3, n=(1, 2, 1)), TypeError, "draw: got int"),
        (lambda: widgets.slide(draw), TypeError, "ranges: got none"),
        (lambda: widgets.slide(draw, slope=(1, 2), count=(1, 2, 1)), TypeError, r"slope: got \(1, 2\); accepted is"),
        (lambda: widgets.slide(draw, slope=3), TypeError, "slope: got 3"),
        (lambda: widgets.slide(draw, slope=(True, 3, 1)), TypeError, "slope: got .*not all numbers"),
        (lambda: widgets.slide(draw, slope=("a", "b", "c")), TypeError, "slope: got .*not all numbers"),
        (lambda: widgets.slide(draw, slope=(2, 1, 1)), ValueError, r"slope: got \(2, 1, 1\)"),
        (lambda: widgets.slide(draw, slope=(1, 2, 0)), ValueError, "step > 0"),
        (lambda: widgets.slide(draw, slope=(1, 2, 1, 3)), ValueError, "start between them"),
        (lambda: widgets.slide(draw, slope=(0.0, float("nan"), 1.0)), ValueError, "slope: got"),
        (lambda: widgets.slide(draw, slope=["one"]), ValueError, "slope: got 1 choices"),
        (lambda: widgets.slide(lambda n: "text", n=(1, 2, 1)), TypeError, "draw: returned str"),
    ],
)
def test_slide_refuses(call, error, message):
    with pytest.raises(error, match=message):
        call()


# Imports


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_the_widgets_brings_in_no_widget_library():
    found = run(
        "import sys, mhalib; mhalib.widgets, mhalib.plots\n"
        "unwanted = {'anywidget', 'ipywidgets', 'matplotlib', 'IPython', 'traitlets'}\n"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    assert found == "[]\n"


@pytest.mark.parametrize(
    ("library", "call"),
    [
        ("anywidget", "widgets.heads(numpy.ones((1, 1, 1)), ['a'])"),
        ("ipywidgets", "widgets.slide(print, n=(1, 2, 1))"),
    ],
)
def test_without_the_library_the_message_says_what_to_install(library, call):
    told = run(
        f"import sys, numpy; sys.modules[{library!r}] = None\nfrom mhalib import widgets\n"
        f"try: {call}\nexcept ImportError as error: print(error)"
    )
    assert f"needs {library}: pip install {library};" in told
    assert "mhalib[" not in told  # one package, not thirty
