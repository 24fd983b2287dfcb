"""The chapters in JupyterLab, in a real browser: run clean, answer the reader's hands, can be read in both themes.

Every chapter is opened. Those that together hold every kind of widget are run whole, which proves that widgets and
the page work with a kernel; what cells print is nbval's to prove.

Skipped where there is no JupyterLab, no Playwright or no Chromium; the reason says what to install.
"""

import base64
import contextlib
import json
import re
import shutil
import struct
import time

import nbformat
import pytest

from tools.book import lab

REASON = lab.missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")
CHAPTERS = sorted(path.stem for path in (lab.ROOT / "chapters").glob("*.ipynb"))


def kinds(chapter):
    """The kinds of widgets that are stored in a chapter."""
    metadata = json.loads((lab.ROOT / "chapters" / f"{chapter}.ipynb").read_text("utf-8"))["metadata"]
    stored = metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {}).get("state", {})
    return {model["model_name"] for model in stored.values()}


def first_of_each_kind():
    """The chapters, in their order, that hold a kind of widget that none before them does."""
    chosen, seen = [], set()
    for chapter in CHAPTERS:
        if kinds(chapter) - seen:
            chosen.append(chapter)
            seen |= kinds(chapter)
    return chosen


RUN_WHOLE = first_of_each_kind()
ANSWER = 60_000  # milliseconds for a picture to change; a slider asks the kernel, and the machine may be loaded
STEP = 1 / 65535  # weights travel as 16-bit integers; another CPU may round one to the neighbour
SEEN: dict[str, dict[str, int]] = {}  # what each chapter that was run turned out to have

# What a viewer has drawn: its place, and the cells' opacities, which are the weights.
DRAWN = """viewer => ({
    at: ["layer", "head"].map(name => Number(viewer.querySelector(`.mhalib-heads-${name}`).value)),
    weights: [...viewer.querySelectorAll(".mhalib-heads-cell")].map(cell => Number(cell.getAttribute("fill-opacity"))),
})"""

# The text in `root` whose contrast with what lies behind it is under 4.5 to 1 (WCAG 2.1, 1.4.3).
FAINT = """root => {
    const pixel = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const rgb = () => [...pixel.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    const paint = (colour, alpha) => {
        pixel.globalAlpha = alpha; pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1);
    };
    const luminance = colour => {
        const [r, g, b] = colour.map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const faint = [];
    let seen = 0;
    for (const node of root.querySelectorAll("*")) {
        const text = [...node.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join("").trim();
        if (!text || !node.checkVisibility() || node.closest("option, :disabled")) continue;
        const above = [];
        for (let e = node; e; e = e.parentElement) above.unshift(getComputedStyle(e));
        paint("white", 1);
        for (const style of above) paint(style.backgroundColor, 1);
        const behind = rgb();
        const own = above.at(-1);
        paint(node instanceof SVGElement ? own.fill : own.color, above.reduce((a, s) => a * Number(s.opacity), 1));
        const [low, high] = [luminance(behind), luminance(rgb())].sort((a, b) => a - b);
        const ratio = (high + 0.05) / (low + 0.05);
        seen += 1;
        if (ratio < 4.5) faint.push(`${ratio.toFixed(1)}: ${node.getAttribute("class")} "${text.slice(0, 30)}"`);
    }
    return {seen, faint};
}"""

# The corners of a picture as drawn: red, green, blue, alpha.
CORNERS = """async image => {
    await image.decode();
    const [w, h] = [image.naturalWidth, image.naturalHeight];
    const canvas = new OffscreenCanvas(w, h).getContext("2d");
    canvas.drawImage(image, 0, 0);
    return [[0, 0], [w - 1, 0], [0, h - 1], [w - 1, h - 1]].map(([x, y]) => [...canvas.getImageData(x, y, 1, 1).data]);
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the chapters and of what they link to: nothing that a page does reaches the clone."""
    copy = tmp_path_factory.mktemp("clone")
    (copy / "site").mkdir()
    shutil.copytree(lab.ROOT / "chapters", copy / "chapters", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    for name in ("pyproject.toml", "site/glossary.md"):
        shutil.copy(lab.ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def server(folder):
    with lab.serve(folder) as running:
        running.trust(*(folder / "chapters").glob("*.ipynb"))
        yield running


@pytest.fixture(scope="module")
def dark_server(folder):
    with lab.serve(folder, dark=True) as running:
        running.trust(*(folder / "chapters").glob("*.ipynb"))
        yield running


@pytest.fixture(scope="module")
def chromium():
    with lab.browser() as browser:
        yield browser


@contextlib.contextmanager
def opened(chromium, server, path):
    notebook = lab.Notebook(chromium, server, path)
    try:
        yield notebook
    finally:
        notebook.close()


def complaints(notebook):
    """All that is wrong with a notebook that has run: cells, console, page, requests, what widgets show."""
    cells = notebook.cells()
    counts = [cell["count"] for cell in cells if cell["source"].strip()]
    found = [*lab.failures(cells), *notebook.problems]
    if not lab.failures(cells) and counts != list(range(1, len(counts) + 1)):
        found.append(f"execution counts {counts}")
    shown = '[data-mime-type="application/vnd.jupyter.error"], .jupyter-widgets-error-widget, .mhalib-slide pre'
    return found + [f"shown: {text[:500]}" for text in notebook.page.locator(shown).all_inner_texts()]


def drawn_widgets(notebook):
    """The viewers and the sliders of a notebook, once all that its outputs announce is there."""
    kind = "application/vnd.jupyter.widget-view+json"
    outputs = [output for cell in notebook.cells() for output in cell["outputs"] if kind in output.get("data", {})]
    texts = ["".join(output["data"]["text/plain"]) for output in outputs]
    found = []
    for name, selector in (("heads(", ".mhalib-heads"), ("slide(", ".mhalib-slide:has(img)")):
        announced = sum(text.startswith(name) for text in texts)
        locator = notebook.page.locator(f".jp-OutputArea {selector}")
        if announced:
            locator.nth(announced - 1).wait_for(state="attached", timeout=ANSWER)
        assert locator.count() == announced
        found.append(locator.all())
    return found


def until(notebook, what, condition):
    """Waits until condition() is true; the page goes on meanwhile."""
    deadline = time.monotonic() + ANSWER / 1000
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {ANSWER // 1000} s; {notebook.problems}"
        notebook.page.evaluate("() => new Promise(done => requestAnimationFrame(done))")


def saved_viewers(path):
    """The viewers stored in a notebook, in the order of its cells: shape, tokens, weights[layer][head] (flat)."""
    notebook = nbformat.read(path, as_version=4)
    kind = "application/vnd.jupyter.widget-view+json"
    states = notebook.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {}).get("state", {})
    found = []
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        model = states.get(output.get("data", {}).get(kind, {}).get("model_id"), {})
        state = model.get("state", {})
        if {"shape", "tokens", "layer", "head"} <= set(state):
            raw = base64.b64decode(next(b["data"] for b in model["buffers"] if b["path"] == ["data"]))
            weights = [value * STEP for value in struct.unpack(f"<{len(raw) // 2}H", raw)]
            found.append((state["shape"], state["tokens"], weights))
    return found


def check_viewer(notebook, viewer, saved):
    """Moves the sliders of a viewer by keyboard; the map and the readout must be those of the weights."""
    (_, heads, length), tokens, weights = (saved[0][:3], *saved[1:])
    size = length * length

    def expected(drawn):
        start = (drawn["at"][0] * heads + drawn["at"][1]) * size
        return weights[start : start + size]

    def agrees(drawn):
        return drawn["weights"] == pytest.approx(expected(drawn), abs=0.5e-4 + STEP)  # drawn with four digits

    viewer.scroll_into_view_if_needed()
    assert agrees(viewer.evaluate(DRAWN))
    moved = 0
    for name in ("layer", "head"):
        slider = viewer.locator(f"input.mhalib-heads-{name}")
        if not slider.is_visible():
            continue  # there is only one
        before = viewer.evaluate(DRAWN)
        value, high = slider.evaluate("slider => [Number(slider.value), Number(slider.max)]")
        picture = viewer.locator(".mhalib-heads-canvas").screenshot()
        slider.press("ArrowLeft" if value == high else "ArrowRight")
        until(notebook, f"{name} moved", lambda now=before["at"]: viewer.evaluate(DRAWN)["at"] != now)
        assert agrees(viewer.evaluate(DRAWN))
        assert viewer.locator(".mhalib-heads-canvas").screenshot() != picture
        moved += 1
    assert moved, "a viewer without a slider to move"
    now = expected(viewer.evaluate(DRAWN))
    i, j = divmod(max(range(size), key=now.__getitem__), length)
    viewer.locator(f'.mhalib-heads-cell[data-i="{i}"][data-j="{j}"]').hover(force=True)
    readout = viewer.locator(".mhalib-heads-readout")
    until(notebook, "readout", lambda: readout.inner_text().startswith(f"{tokens[i]} → {tokens[j]} "))
    assert float(readout.inner_text().split()[-1]) == pytest.approx(now[i * length + j], abs=0.005 + STEP)


def check_slide(notebook, slide):
    """Moves each slider by keyboard; the picture must change each time."""
    slide.scroll_into_view_if_needed()
    handles = slide.locator(".noUi-handle")
    handles.first.wait_for(timeout=ANSWER)
    for handle in handles.all():
        before = slide.locator("img").get_attribute("src")
        value, high = (float(handle.get_attribute(f"aria-value{name}")) for name in ("now", "max"))
        handle.press("ArrowLeft" if value == high else "ArrowRight")
        until(notebook, "slider moved", lambda old=before: slide.locator("img").get_attribute("src") != old)
    assert slide.locator("img").get_attribute("alt")


@pytest.mark.parametrize("chapter", RUN_WHOLE)
def test_chapter_runs_and_answers(chapter, folder, server, chromium):
    with opened(chromium, server, f"chapters/{chapter}.ipynb") as notebook:
        notebook.run_all()
        assert complaints(notebook) == []
        viewers, slides = drawn_widgets(notebook)
        saved = saved_viewers(folder / "chapters" / f"{chapter}.ipynb")
        assert len(viewers) == len(saved)
        for viewer, weights in zip(viewers, saved, strict=True):
            check_viewer(notebook, viewer, weights)
        for slide in slides:
            check_slide(notebook, slide)
        for widget in (*viewers, *slides):
            assert widget.evaluate(FAINT)["faint"] == []
        notebook.settle()
        assert complaints(notebook) == []
        SEEN[chapter] = {"viewers": len(viewers), "slides": len(slides)}


def test_every_kind_of_widget_was_tried():
    """The checks above must not pass because there was nothing to check."""
    if set(SEEN) != set(RUN_WHOLE):
        pytest.skip("says something only after the test above has run in this process for every chapter")
    assert set().union(*map(kinds, RUN_WHOLE)) == set().union(*map(kinds, CHAPTERS))
    assert sum(seen["viewers"] for seen in SEEN.values()) > 0
    assert sum(seen["slides"] for seen in SEEN.values()) > 0


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_saved_outputs_in_the_dark_theme(chapter, folder, dark_server, chromium):
    """Opened and not run: the saved viewers are drawn and answer; figures and texts can be read on black."""
    with opened(chromium, dark_server, f"chapters/{chapter}.ipynb") as notebook:
        assert notebook.page.evaluate("() => document.body.dataset.jpThemeLight") == "false"
        viewers, slides = drawn_widgets(notebook)
        saved = saved_viewers(folder / "chapters" / f"{chapter}.ipynb")
        for viewer, weights in zip(viewers, saved, strict=True):
            check_viewer(notebook, viewer, weights)
            assert viewer.evaluate(FAINT)["seen"] > 2 * len(weights[1])  # each token stands beside a row and a column
        for widget in (*viewers, *slides):
            assert widget.evaluate(FAINT)["faint"] == []
        for image in notebook.page.locator(".jp-OutputArea img").all():
            for red, green, blue, alpha in image.evaluate(CORNERS):
                assert alpha == 255
                assert min(red, green, blue) >= 230, "a figure's background is light, for its ink is dark"
        assert lab.failures(notebook.cells(), run=False) + notebook.problems == []


def write_notebook(path, *sources):
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)


def javascript(code):
    return f"from IPython.display import Javascript, display\ndisplay(Javascript({json.dumps(code)}))"


def test_an_error_in_a_cell_is_noticed(folder, server, chromium):
    write_notebook(folder / "broken_cell.ipynb", "1 + 1", "1 / 0", "2 + 2")
    with opened(chromium, server, "broken_cell.ipynb") as notebook:
        notebook.run_all()
        found = "\n".join(complaints(notebook))
    assert "code cell 2 ['1 / 0']: ZeroDivisionError: division by zero" in found
    assert "code cell 3 ['2 + 2']: has not run" in found


def test_a_fault_of_the_page_is_noticed(folder, server, chromium):
    faults = {
        "console.error('deliberate')": "console error: deliberate",
        "setTimeout(() => { throw new Error('deliberate'); })": "page error: deliberate",
        "fetch('/not/here')": "request answered 404: /not/here",
        "fetch('http://127.0.0.1:9/')": "request to another host: http://127.0.0.1:9/",
        "new Image().src = 'https://example.org/x.png'": "request to another host: https://example.org/x.png",
        "new WebSocket('wss://example.org/x')": "request to another host: wss://example.org/x",
    }
    write_notebook(folder / "broken_page.ipynb", *map(javascript, faults))
    with opened(chromium, server, "broken_page.ipynb") as notebook:
        notebook.run_all()
        for complaint in faults.values():
            until(notebook, complaint, lambda what=complaint: any(c.startswith(what) for c in complaints(notebook)))
        assert lab.failures(notebook.cells()) == []  # the faults are the page's alone


@pytest.mark.parametrize(("term", "anchor"), [("causal mask", "causal-mask"), ("FlashAttention", "flashattention")])
def test_a_link_to_the_glossary_opens_it_at_the_term(term, anchor, folder, server, chromium):
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell(f"[{term}](../site/glossary.md#{anchor})")],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(notebook, folder / "chapters" / "link.ipynb")
    with opened(chromium, server, "chapters/link.ipynb") as notebook:
        notebook.page.locator(".jp-RenderedMarkdown a", has_text=term).first.click()
        heading = notebook.page.locator(".jp-MarkdownViewer h3").filter(has_text=re.compile(rf"^{term}¶?$"))
        heading.wait_for(timeout=ANSWER)
        until(notebook, f"{term} in sight", lambda: 0 < heading.bounding_box()["y"] < 300)
        assert notebook.problems == []
