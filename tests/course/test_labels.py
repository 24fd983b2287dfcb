"""Labels are data: letters of every language in a font that has them, and no sign read as mathematics."""

import io
import subprocess
import sys
import warnings

import matplotlib
import matplotlib.image
import numpy as np
import pytest
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

from mhalib import plots, widgets
from mhalib.course.style import LETTERS, MORE_LETTERS, house_style

LABELS = ("$x$", "$5-$6", r"$\foo$", "_", "_hidden", "^", r"\$", "은행", "银行", "बैंक")


def uniform(*shape):
    return np.full(shape, 1 / shape[-1])


#: Each place of each function where a caller's text goes: text → a figure with this text there.
PLACES = {
    "attention_map, queries": lambda t: plots.attention_map(uniform(2, 2), [t, "a"], ["b", "c"]),
    "attention_map, keys": lambda t: plots.attention_map(uniform(2, 2), ["b", "c"], [t, "a"]),
    "attention_map, title": lambda t: plots.attention_map(uniform(2, 2), ["b", "c"], title=t),
    "attention_map, values": lambda t: plots.attention_map(uniform(2, 2), [t, "c"], ["a", "d"], values=True),
    "heads_grid, queries": lambda t: plots.heads_grid(uniform(1, 2, 2), [t, "a"], ["b", "c"]),
    "heads_grid, keys": lambda t: plots.heads_grid(uniform(1, 2, 2), ["b", "c"], [t, "a"]),
    "heads_grid, title": lambda t: plots.heads_grid(uniform(1, 2, 2), ["b", "c"], titles=[t]),
    "heads_grid, title with a mark": lambda t: plots.heads_grid(uniform(1, 2, 2), ["b", "c"], titles=[t], mark=(0, 1)),
    "heads_grid, marked query": lambda t: plots.heads_grid(uniform(1, 9, 9), [t] * 9, ["b"] * 9, mark=(0, 1)),
    "heads_grid, marked key": lambda t: plots.heads_grid(uniform(1, 9, 9), ["b"] * 9, [t] * 9, mark=(0, 1)),
    "mask_grid, title": lambda t: plots.mask_grid({t: np.tri(2, dtype=bool)}),
    "lines, label": lambda t: plots.lines([1, 2], {t: [1, 2], "b": [2, 1]}, xlabel="x", ylabel="y"),
    "lines, title": lambda t: plots.lines([1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y", title=t),
    "lines, xlabel": lambda t: plots.lines([1, 2], {"a": [1, 2]}, xlabel=t, ylabel="y"),
    "lines, ylabel": lambda t: plots.lines([1, 2], {"a": [1, 2]}, xlabel="x", ylabel=t),
    "lines, mark_label": lambda t: plots.lines([1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y", mark_x=1, mark_label=t),
}
each_place = pytest.mark.parametrize("make", PLACES.values(), ids=PLACES)


def installed(family):
    return any(font.name == family for font in fontManager.ttflist)


def picture(figure):
    """Its pixels, small and without the layout that `plots.png` waits for: every text is drawn all the same."""
    figure.set_layout_engine("none")
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(buffer, format="png", dpi=60)
    buffer.seek(0)
    return matplotlib.image.imread(buffer)


def drawn(figure, monkeypatch):
    """The texts that the picture is made of, as they go to the renderer, with whether each is mathematics."""
    seen = []
    original = RendererAgg.draw_text

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        seen.append((s, ismath))
        return original(self, gc, x, y, s, prop, angle, ismath, mtext)

    with monkeypatch.context() as patch:
        patch.setattr(RendererAgg, "draw_text", draw_text)
        picture(figure)
    return seen


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph")
@each_place
def test_every_label_reaches_the_picture_letter_by_letter(make, monkeypatch):
    for label in LABELS:
        texts = drawn(make(label), monkeypatch)
        mine = [(text, ismath) for text, ismath in texts if label in text]
        assert mine, f"{label!r} is not in the picture: {texts}"
        assert not any(ismath for _, ismath in mine), (label, mine)


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_logarithmic_axis_still_has_its_powers_as_mathematics(monkeypatch):
    """What matplotlib writes itself is no data of the caller."""
    figure = plots.lines([1, 2], {"$a$": [1, 1e6]}, xlabel="x", ylabel="y", log_y=True)
    assert any(ismath for _, ismath in drawn(figure, monkeypatch))


has_chinese_and_korean = any(
    installed(name) and {ord(c) for c in "은행银行銀"} <= set(get_font(findfont(name)).get_charmap())
    for name in MORE_LETTERS
)


@pytest.mark.slow
@pytest.mark.skipif(not has_chinese_and_korean, reason="no font with Chinese and Korean letters is installed")
@each_place
def test_words_of_one_length_in_other_letters_make_other_pictures(make):
    """As long as every letter is the same box, they make the same picture."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        korean, chinese, japanese = (picture(make(word)) for word in ("은행", "银行", "銀行"))
    for one, other in ((korean, chinese), (chinese, japanese)):
        assert one.shape == other.shape
        assert (one != other).any()


def test_latin_letters_stay_those_of_one_font_whatever_else_is_installed():
    with house_style():
        families = FontProperties().get_family()
        assert families[0] == LETTERS
        assert all(installed(family) for family in families)
    with matplotlib.rc_context({"font.family": [LETTERS]}):
        alone = get_font(findfont(LETTERS)).get_charmap()
    assert {ord(letter) for letter in "AaZz09.,[]#·é×−α"} <= set(alone)


def test_a_font_that_the_reader_has_set_draws_what_the_others_lack():
    with matplotlib.rc_context({"font.family": ["STIXGeneral"]}), house_style():
        assert "STIXGeneral" in FontProperties().get_family()
    with matplotlib.rc_context({"font.sans-serif": ["cmb10", "No Such Font"]}), house_style():
        families = FontProperties().get_family()
        assert "cmb10" in families
        assert "No Such Font" not in families


def test_letters_that_no_font_has_are_told_in_one_warning():
    private = "\ue123\ue124\ue125"  # private use: no font here has them
    figure = plots.attention_map(uniform(3, 3), [private, "b", "c"], title=private)
    with pytest.warns(UserWarning, match="letters|font") as caught:
        plots.png(figure)
    (warning,) = caught
    assert f"no installed font has {private}, drawn as boxes; install one that has" in str(warning.message)


def test_other_warnings_of_a_drawing_are_not_swallowed():
    class Loud:
        def savefig(self, *args, **options):
            warnings.warn("something else", RuntimeWarning, stacklevel=1)

    with pytest.warns(RuntimeWarning, match="something else"):
        plots.png(Loud())


@pytest.mark.slow
def test_without_another_font_the_pictures_are_made_all_the_same():
    """A machine that has only what matplotlib brings: matplotlib looks in no folder of the system."""
    code = (
        "import matplotlib.font_manager as manager\n"
        "fonts = manager.fontManager\n"
        "fonts.ttflist = [font for font in fonts.ttflist if 'mpl-data' in font.fname]\n"
        "from mhalib import plots\n"
        "plots.png(plots.attention_map([[0.5, 0.5]] * 2, ['은행', '$x$'], title='银行'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("Warning") == 1, done.stderr
    assert "no installed font has" in done.stderr
    assert "findfont" not in done.stderr


@pytest.mark.filterwarnings("ignore:Glyph")
def test_the_viewer_gets_the_same_labels_as_its_still_picture(monkeypatch):
    tokens = list(LABELS[:8])
    maps = uniform(1, 8, 8)
    assert widgets.heads(maps, tokens).tokens == tokens
    still = [text for text, _ in drawn(plots.heads_grid(maps, tokens), monkeypatch)]
    assert set(tokens) <= set(still)
