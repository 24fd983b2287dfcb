"""Figures: never without alt text, the same bytes each time, white and opaque, and they draw what they were given."""

import base64
import html.parser
import io
import subprocess
import sys

import matplotlib
import matplotlib.image
import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from matplotlib.colors import to_hex

from mhalib import plots
from mhalib.course.style import LINES

TOKENS = ["the", "bank", "has", "money", "."]
ALT = 'A heat map; "it" & <bank> are dark.'


def distributions(*shape, seed=0):
    return torch.softmax(3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), -1)


def one_map():
    return plots.attention_map(distributions(5, 5), TOKENS, title="a head", mark=(2, 1))


FIGURES = {
    "attention_map": one_map,
    "attention_map with values": lambda: plots.attention_map(distributions(3, 5), TOKENS[:3], TOKENS, values=True),
    "heads_grid": lambda: plots.heads_grid(distributions(3, 5, 5), TOKENS, columns=2),
    "heads_grid, many tokens": lambda: plots.heads_grid(distributions(2, 9, 9), list("abcdefghi"), mark=(1, 2)),
    "mask_grid": lambda: plots.mask_grid({"causal": np.tri(4, dtype=bool), "dead row": np.tri(4, k=-1, dtype=bool)}),
    "lines": lambda: plots.lines([1, 10, 100], {"a": [1, 2, 3], "b": [3, 2, 1]}, xlabel="x", ylabel="y", log_x=True),
}
each_figure = pytest.mark.parametrize("make", FIGURES.values(), ids=FIGURES)


@pytest.fixture
def notebook():
    """A running IPython, as in a notebook; its display calls are captured."""
    shell = InteractiveShell.instance()
    with capture_output() as captured:
        yield captured
    InteractiveShell.clear_instance()
    del shell


def displayed(captured):
    return [(output.data, output.metadata) for output in captured.outputs]


# Alt text


@pytest.mark.parametrize("alt", ["", "   ", "\n"])
def test_a_figure_without_alt_text_is_refused(alt):
    with pytest.raises(ValueError, match="alt: got an empty text"):
        plots.show(one_map(), alt)


@pytest.mark.parametrize("alt", [None, 3, ["a map"]])
def test_alt_text_must_be_text(alt):
    with pytest.raises(TypeError, match="alt: got"):
        plots.show(one_map(), alt)


def test_alt_text_is_required():
    with pytest.raises(TypeError, match="alt"):
        plots.show(one_map())


def test_show_publishes_the_png_with_its_alt_text(notebook):
    plots.show(one_map(), ALT)
    (hidden, _), (data, metadata) = displayed(notebook)
    assert data["text/plain"] == ALT
    assert base64.b64decode(data["image/png"]) == plots.png(one_map())
    assert metadata["image/png"]["alt"] == ALT
    # A size in CSS pixels, 1.5 device pixels each, so that letters are as large as the page's own.
    width = matplotlib.image.imread(io.BytesIO(base64.b64decode(data["image/png"]))).shape[1]
    assert width == pytest.approx(1.5 * metadata["image/png"]["width"], abs=1)
    assert list(hidden) == ["text/html"]


def test_jupyterlab_which_gives_images_no_alt_gets_the_text_as_html_read_but_not_seen(notebook):
    plots.show(one_map(), ALT)
    hidden = displayed(notebook)[0][0]["text/html"]
    assert ">Figure: A heat map; &quot;it&quot; &amp; &lt;bank&gt; are dark.</div>" in hidden
    assert "position:absolute" in hidden
    assert "clip:rect(" in hidden
    assert "display:none" not in hidden  # that would hide it from a screen reader too
    assert "base64" not in hidden  # nbval compares text/html


class Page(html.parser.HTMLParser):
    """The images' alternatives and all text of a page."""

    def __init__(self, text):
        super().__init__()
        self.alts, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "img":
            self.alts.append(dict(attrs).get("alt"))

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("template", ["classic", "lab"])
def test_exported_pages_carry_the_alt_text(notebook, template):
    from nbconvert import HTMLExporter

    plots.show(one_map(), ALT)
    outputs = [nbformat.v4.new_output("display_data", data, metadata=more) for data, more in displayed(notebook)]
    cell = nbformat.v4.new_code_cell("", outputs=outputs)
    page, _ = HTMLExporter(template_name=template).from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    assert f"Figure: {ALT}" in Page(page).text
    if template == "classic":  # the other one has no place for an image's alternative
        assert Page(page).alts == [ALT]


def test_without_a_notebook_the_alt_text_is_printed(capsys):
    plots.show(one_map(), "two\n  lines")
    assert capsys.readouterr().out == "two lines\n"


def test_show_closes_a_figure_of_pyplot(capsys):
    plt.switch_backend("agg")
    figure, other = plt.figure(), plt.figure()
    plots.show(figure, ALT)
    assert plt.get_fignums() == [other.number]
    plt.close(other)


def test_what_is_no_figure_is_refused():
    with pytest.raises(TypeError, match="figure: got ndarray"):
        plots.show(np.zeros((2, 2)), ALT)


# The file


def chunks(png):
    """The names of a PNG's chunks, in order."""
    names, at = [], 8
    while at < len(png):
        names.append(png[at + 4 : at + 8].decode())
        at += 12 + int.from_bytes(png[at : at + 4])
    return names


@each_figure
def test_the_same_figure_has_the_same_bytes(make):
    first = plots.png(make())
    assert plots.png(make()) == first
    assert set(chunks(first)) == {"IHDR", "pHYs", "IDAT", "IEND"}  # no date, no software


@each_figure
def test_a_readers_settings_neither_change_a_figure_nor_are_changed(make):
    expected = plots.png(make())
    with matplotlib.rc_context():
        plt.style.use("dark_background")
        matplotlib.rcParams.update({"font.size": 40, "savefig.dpi": 30, "savefig.transparent": True})
        before = dict(matplotlib.rcParams)
        assert plots.png(make()) == expected
        assert dict(matplotlib.rcParams) == before


@each_figure
def test_the_background_is_white_and_opaque(make):
    pixels = matplotlib.image.imread(io.BytesIO(plots.png(make())))
    assert pixels.shape[2] == 3 or (pixels[..., 3] == 1).all()
    rim = np.concatenate([pixels[0, :, :3], pixels[-1, :, :3], pixels[:, 0, :3], pixels[:, -1, :3]])
    assert (rim == 1).mean() > 0.98  # axis labels may touch the rim


# Colours


def lightness(colour):
    red, green, blue = matplotlib.colors.to_rgb(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_colour_map_falls_steadily_in_grey_from_near_white_to_dark():
    levels = [lightness(c) for c in matplotlib.colormaps["Blues"](np.linspace(0, 1, 65))]
    assert (np.diff(levels) < 0).all()
    assert levels[0] > 0.95
    assert levels[-1] < 0.25


def test_lines_differ_without_colour():
    assert len({str(dash) for _, dash, _ in LINES}) == len(LINES)
    assert len({marker for _, _, marker in LINES}) == len(LINES)


# What is drawn


def test_attention_map_draws_the_weights_rows_are_queries():
    weights = distributions(2, 5)
    figure = plots.attention_map(weights, ["it", "has"], TOKENS, mark=(1, 3))
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights.double().numpy())
    assert axes.images[0].get_clim() == (0, 1)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["it", "has"]
    assert [label.get_text() for label in axes.get_xticklabels()] == TOKENS
    assert axes.yaxis_inverted()  # the first query on top
    assert axes.patches[0].get_xy() == (2.5, 0.5)
    assert axes.patches[0].get_bbox().max.tolist() == [3.5, 1.5]


def test_attention_map_writes_values_in_ink_that_can_be_read():
    figure = plots.attention_map(np.array([[0.9, 0.1], [0.25, 0.75]]), ["a", "b"], values=True)
    texts = [(text.get_text(), text.get_position(), text.get_color()) for text in figure.axes[0].texts]
    assert texts == [
        ("0.90", (0, 0), "white"),
        ("0.10", (1, 0), "black"),
        ("0.25", (0, 1), "black"),
        ("0.75", (1, 1), "white"),
    ]


def test_heads_grid_draws_every_head_on_one_scale_and_names_the_marked_weight():
    maps = distributions(3, 9, 9)
    figure = plots.heads_grid(maps, list("abcdefghi"), columns=2, mark=(4, 7))
    for head in range(3):
        axes = figure.axes[head]
        np.testing.assert_array_equal(axes.images[0].get_array(), maps[head].double().numpy())
        assert axes.images[0].get_clim() == (0, 1)
        assert axes.get_title() == f"head {head}: {maps[head, 4, 7]:.2f}"
        assert axes.patches[0].get_xy() == (6.5, 3.5)
    rows = [[label.get_text() for label in axes.get_yticklabels() if label.get_visible()] for axes in figure.axes[:3]]
    assert rows == [["e"], [], ["e"]]  # names on the rim only


def test_heads_grid_names_all_of_few_tokens_and_counts_many():
    few = plots.heads_grid(distributions(1, 5, 5), TOKENS, titles=["only"]).axes[0]
    assert [label.get_text() for label in few.get_xticklabels()] == TOKENS
    assert few.get_title() == "only"
    many = plots.heads_grid(distributions(1, 20, 20), [str(n) for n in range(20)]).axes[0]
    assert list(many.get_xticks()) == [0, 5, 10, 15]


def test_bfloat16_maps_are_drawn():
    maps = distributions(2, 5, 5).bfloat16()
    array = plots.heads_grid(maps, TOKENS).axes[1].images[0].get_array()
    np.testing.assert_array_equal(array, maps[1].double().numpy())


def test_mask_grid_is_dark_where_a_query_may_attend_and_hatches_dead_rows():
    mask = torch.tensor([[True, False, False], [False, False, False], [True, True, True]])
    figure = plots.mask_grid({"mine": mask})
    figure.canvas.draw()
    axes = figure.axes[0]
    colours = axes.images[0].cmap(axes.images[0].norm(axes.images[0].get_array()))
    grey = np.array([[lightness(pixel[:3]) for pixel in row] for row in colours])
    assert (grey[mask.numpy()] < 0.4).all()
    assert (grey[~mask.numpy()] > 0.9).all()
    hatched = [(patch.get_y(), patch.get_height()) for patch in axes.patches if patch.get_hatch()]
    assert hatched == [(0.5, 1.0)]  # row 1 alone
    assert axes.get_title() == "mine"


def test_lines_draws_the_numbers_and_the_mark():
    series = {"scores": [4, 16, 64], "projections": np.array([8.0, 16.0, 32.0])}
    x = torch.tensor([1, 2, 4])
    figure = plots.lines(x, series, xlabel="N", ylabel="FLOPs", log_x=True, log_y=True, mark_x=2, mark_label="N = 2d")
    axes = figure.axes[0]
    drawn = {line.get_label(): line for line in axes.lines}
    for label, y in series.items():
        assert drawn[label].get_xdata().tolist() == [1, 2, 4]
        assert list(drawn[label].get_ydata()) == list(y)
    assert list(drawn["N = 2d"].get_xdata()) == [2, 2]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4"]
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {"scores", "projections", "N = 2d"}
    assert to_hex(drawn["scores"].get_color()) != to_hex(drawn["projections"].get_color())


def test_points_without_an_order_are_not_joined_and_counted_things_have_whole_ticks():
    figure = plots.lines(range(12), {"layer 3": np.linspace(0, 1, 12)}, xlabel="head", ylabel="weight", joined=False)
    axes = figure.axes[0]
    assert axes.lines[0].get_linestyle() == "None"
    assert axes.lines[0].get_markevery() == 1
    assert list(axes.get_xticks()) == list(range(12))


# Refusals


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plots.attention_map(distributions(2, 5, 5), TOKENS), ValueError, r"weights: got shape \(2, 5, 5\)"),
        (
            lambda: plots.attention_map(distributions(5, 5), TOKENS[:4]),
            ValueError,
            "query_tokens: got 4 for a map of 5",
        ),
        (lambda: plots.attention_map(distributions(5, 4), TOKENS), ValueError, "key_tokens: got 5 for a map of 4"),
        (lambda: plots.attention_map(distributions(5, 5), "abcde"), TypeError, "query_tokens: got one string"),
        (lambda: plots.attention_map(-distributions(5, 5), TOKENS), ValueError, "weights: got -"),
        (lambda: plots.attention_map(7 * distributions(5, 5), TOKENS), ValueError, "or the colours lie"),
        (lambda: plots.attention_map(torch.full((5, 5), torch.nan), TOKENS), ValueError, "finite floats"),
        (lambda: plots.attention_map(torch.ones(5, 5, dtype=torch.int64), TOKENS), ValueError, "finite floats"),
        (lambda: plots.attention_map(distributions(5, 5), TOKENS, mark=(5, 0)), ValueError, r"mark: got \(5, 0\)"),
        (lambda: plots.attention_map(distributions(5, 5), TOKENS, vmax=0), ValueError, "vmax: got 0"),
        (
            lambda: plots.attention_map(distributions(13, 13), ["a"] * 13, values=True),
            ValueError,
            "values: got 13 × 13",
        ),
        (lambda: plots.heads_grid(distributions(5, 5), TOKENS), ValueError, r"maps: got shape \(5, 5\)"),
        (lambda: plots.heads_grid(distributions(2, 5, 5), TOKENS, titles=["one"]), ValueError, "titles: got 1 for 2"),
        (lambda: plots.heads_grid(distributions(2, 5, 5), TOKENS, columns=0), ValueError, "columns: got 0"),
        (lambda: plots.mask_grid({}), TypeError, "masks: accepted is a non-empty dictionary"),
        (lambda: plots.mask_grid({"m": np.ones((2, 2))}), TypeError, r"masks\['m'\]: got float64; accepted is bool"),
        (lambda: plots.mask_grid({"m": np.ones((1, 1, 2, 2), bool)}), ValueError, r"got shape \(1, 1, 2, 2\)"),
        (lambda: plots.lines([1, 2], {"a": [1]}, xlabel="x", ylabel="y"), ValueError, r"series\['a'\]: got 1 numbers"),
        (lambda: plots.lines([1, 2], {}, xlabel="x", ylabel="y"), ValueError, "series: accepted is"),
        (lambda: plots.lines([1, 2], {"a": [1, 2]}, xlabel="", ylabel="y"), ValueError, "xlabel: got ''"),
        (lambda: plots.lines([[1], [2]], {"a": [1, 2]}, xlabel="x", ylabel="y"), ValueError, "x: got int64"),
    ],
)
def test_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_without_matplotlib_the_message_says_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from mhalib import plots\n"
        "try: plots.attention_map([[1.0]], ['a'])\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "mhalib.plots needs matplotlib: pip install matplotlib\n"
