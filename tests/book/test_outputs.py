"""Outputs: a chapter is run from its text and written whole, the same bytes each time, or not at all."""

import json
import os

import nbformat
import pytest
from nbconvert import HTMLExporter

from tools.book import lint, outputs, stable, twins

PLAIN = """
# 02 · Sample

```{code-cell} ipython3
:tags: [nbval-ignore-output]

import os
import sys

print(sys.version)
```

Some text.

```{code-cell} ipython3
print("one", end=" ")
print("two")
object()
```

```{code-cell} ipython3
os.path.basename(os.getcwd())
```
"""
WIDGETS = """
```{code-cell} ipython3
import random
from IPython.display import display
import ipywidgets

hidden = ipywidgets.Label("not shown")
slider = ipywidgets.IntSlider(value=3, max=9)
slider
```

```{code-cell} ipython3
box = ipywidgets.Output()
with box:
    print("inside", object())
display(box, display_id=True)
```

```{code-cell} ipython3
:tags: [nbval-ignore-output]

import time

print(f"{time.perf_counter():.9f} s")
```
"""


def chapter(folder, text, name="02_sample"):
    path = folder / f"{name}.md"
    path.write_text(text.lstrip(), "utf-8")
    return folder / name


def notebook_of(stem):
    return nbformat.read(stem.with_suffix(".ipynb"), as_version=4)


def code(stem):
    return [cell for cell in notebook_of(stem).cells if cell.cell_type == "code"]


def test_new_chapter_is_run_in_its_folder_and_both_twins_are_written(tmp_path):
    stem = chapter(tmp_path, PLAIN)
    assert outputs.refresh(stem) == ["02_sample.ipynb", "02_sample.md"]  # the text got its header
    cells = code(stem)
    assert [cell.execution_count for cell in cells] == [1, 2, 3]
    assert cells[1].outputs[0].text == "one two\n"  # one stream, though printed in two pieces
    assert cells[1].outputs[1].data["text/plain"] == "<object at 0xADDR>"
    assert cells[2].outputs[0].data["text/plain"] == repr(tmp_path.name)
    assert twins.differences(stem) == []
    metadata = notebook_of(stem).metadata
    assert metadata.kernelspec.name == "python3"
    assert "version" not in metadata.language_info
    assert not any("execution" in cell.metadata for cell in cells)


def test_twice_gives_the_same_bytes_also_with_widgets_and_timings(tmp_path):
    stem = chapter(tmp_path, WIDGETS)
    outputs.refresh(stem)
    first = stem.with_suffix(".ipynb").read_bytes()
    assert outputs.refresh(stem) == []
    assert stem.with_suffix(".ipynb").read_bytes() == first
    again = tmp_path / "elsewhere"
    again.mkdir()
    other = chapter(again, stem.with_suffix(".md").read_text("utf-8"))
    outputs.refresh(other)  # a new notebook: the same ids, only the timing is another
    same, new = json.loads(first), json.loads(other.with_suffix(".ipynb").read_bytes())
    assert same["cells"][-1].pop("outputs") != new["cells"][-1].pop("outputs")
    assert same == new


def test_widgets_are_stored_so_that_they_show_without_a_kernel(tmp_path):
    stem = chapter(tmp_path, WIDGETS)
    outputs.refresh(stem)
    notebook = notebook_of(stem)
    state = notebook.metadata.widgets[stable.STATE]["state"]
    shown = [
        out.data[stable.VIEW]["model_id"]
        for cell in code(stem)
        for out in cell.outputs
        if stable.VIEW in out.get("data", {})
    ]
    assert len(shown) == 2
    assert state[shown[0]]["state"]["value"] == 3
    layout = state[shown[0]]["state"]["layout"].removeprefix("IPY_MODEL_")
    assert state[layout]["model_name"] == "LayoutModel"
    assert state[shown[1]]["state"]["outputs"][0]["text"] == "inside <object object at 0xADDR>\n"
    assert lint.widgets_stored(notebook, stem.with_suffix(".ipynb")) == []
    html, _ = HTMLExporter().from_notebook_node(notebook)
    assert f'"model_id": "{shown[0]}"' in html


def test_a_store_without_state_breaks_nbconvert_and_is_found(tmp_path):
    stem = chapter(tmp_path, WIDGETS)
    outputs.refresh(stem)
    notebook = notebook_of(stem)
    del notebook.metadata.widgets[stable.STATE]["state"]
    nbformat.validate(notebook)  # the format allows it, and yet:
    with pytest.raises(KeyError, match="state"):
        HTMLExporter().from_notebook_node(notebook)
    assert "holds no 'state'" in lint.widgets_stored(notebook, stem.with_suffix(".ipynb"))[0]
    del notebook.metadata["widgets"]
    assert len(lint.widgets_stored(notebook, stem.with_suffix(".ipynb"))) == 2


def test_models_are_numbered_as_they_are_shown_whatever_their_random_ids():
    def notebook(first, second):
        view = nbformat.v4.new_output("display_data", data={stable.VIEW: {"model_id": second}})
        cell = nbformat.v4.new_code_cell("show()", id="a", outputs=[view])
        model = {"model_name": "BoxModel", "state": {"children": [f"IPY_MODEL_{first}"]}}
        state = {first: {"model_name": "OutputModel", "state": {"msg_id": first[:9]}}, second: model}
        return nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {stable.STATE: {"state": state}}})

    one = stable.settle(notebook("f" * 32, "0" * 32), "02_sample")
    two = stable.settle(notebook("1" * 32, "2" * 32), "02_sample")
    assert one == two
    shown = one.cells[0].outputs[0].data[stable.VIEW]["model_id"]
    state = one.metadata.widgets[stable.STATE]["state"]
    assert list(state) == [shown, state[shown]["state"]["children"][0].removeprefix("IPY_MODEL_")]
    assert shown not in stable.settle(notebook("1" * 32, "2" * 32), "03_other").metadata.widgets[stable.STATE]["state"]


def test_text_wins_and_unchanged_cells_keep_their_ids(tmp_path):
    stem = chapter(tmp_path, PLAIN)
    outputs.refresh(stem)
    before = notebook_of(stem)
    for position, cell in enumerate(before.cells):
        cell.id = f"kept-{position}"
    before.cells[3].source = "print('edited in the notebook')"
    nbformat.write(before, stem.with_suffix(".ipynb"))
    text = stem.with_suffix(".md").read_text("utf-8")
    text = text.replace("Some text.", "Some text.\n\n```{code-cell} ipython3\nprint('new')\n```\n\nOther text.")
    stem.with_suffix(".md").write_text(text, "utf-8")
    assert outputs.refresh(stem) == ["02_sample.ipynb"]
    after = notebook_of(stem).cells
    assert [cell.source for cell in after][3] == "print('new')"
    assert "edited" not in stem.with_suffix(".ipynb").read_text("utf-8")
    ids = [cell.id for cell in after]
    assert [ids[0], ids[1], ids[2], ids[-1]] == ["kept-0", "kept-1", "kept-2", "kept-4"]
    assert len(set(ids)) == len(ids)


def test_an_edited_cell_keeps_its_id_and_no_two_cells_get_the_same():
    def ids(sources, old=None):
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        new = outputs.with_ids(nbformat.v4.new_notebook(cells=cells), old)
        return new, [cell.id for cell in new.cells]

    first, names = ids("aab")
    assert len(set(names)) == 3
    assert names == ids("aab")[1]
    edited, same = ids("cab", first)
    assert same == names
    _, more = ids("acab", edited)  # the first cell now is what the edited one was when it got its id
    assert more[1:] == names
    assert len(set(more)) == 4


def test_a_cell_that_raises_leaves_the_files_as_they_were(tmp_path, capsys):
    stem = chapter(tmp_path, PLAIN)
    outputs.refresh(stem)
    text = stem.with_suffix(".md").read_text("utf-8").replace('print("two")', 'print("two" / 2)')
    stem.with_suffix(".md").write_text(text, "utf-8")
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert outputs.main([str(stem)]) == 1
    printed = capsys.readouterr().out
    assert "02_sample: code cell 2" in printed
    assert "TypeError: unsupported operand" in printed
    assert "nothing written" in printed
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_tagged_cell_may_raise_and_must(tmp_path):
    raises = "```{code-cell} ipython3\n:tags: [raises-exception]\n\n1 / 0\n```\n"
    text = raises + "\n```{code-cell} ipython3\nprint('on')\n```\n"
    stem = chapter(tmp_path, text)
    outputs.refresh(stem)
    error = code(stem)[0].outputs[0]
    assert error.traceback == ["ZeroDivisionError: division by zero"]  # no frames: they name this machine's folders
    assert code(stem)[1].outputs[0].text == "on\n"
    stem.with_suffix(".md").write_text(text.replace("1 / 0", "1 / 1"), "utf-8")
    with pytest.raises(outputs.ChapterError, match="did not raise"):
        outputs.refresh(stem)


def test_kernel_is_this_python_whatever_is_installed(tmp_path, monkeypatch):
    kernel = tmp_path / "jupyter" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    spec = {"argv": ["/bin/false", "{connection_file}"], "display_name": "broken", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec), "utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    stem = chapter(tmp_path, "```{code-cell} ipython3\nimport sys\n\nprint(sys.executable)\n```\n")
    outputs.refresh(stem)
    assert os.path.samefile(code(stem)[0].outputs[0].text.strip(), outputs.sys.executable)


def test_kernel_finds_mhalib_in_the_clone_and_sees_the_environment(tmp_path):
    source = "import importlib.util, os\nprint(importlib.util.find_spec('mhalib') is not None, os.environ.get('SOME'))"
    inputs = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    ran = outputs.execute(inputs, tmp_path, name="x", environment={"SOME": "thing", "PYTHONSTARTUP": None})
    assert ran.cells[0].outputs[0].text == "True thing\n"
    assert inputs.cells[0].outputs == []


def test_check_writes_nothing_and_finds_a_stale_output(tmp_path, capsys):
    stem = chapter(tmp_path, PLAIN)
    outputs.refresh(stem)
    assert outputs.check(stem) == []
    path = stem.with_suffix(".ipynb")
    path.write_text(path.read_text("utf-8").replace("one two", "one toe"), "utf-8")
    stale = path.read_bytes()
    assert outputs.main(["--check", str(stem)]) == 1
    printed = capsys.readouterr().out
    assert "-one toe" in printed
    assert "+one two" in printed
    assert path.read_bytes() == stale


def test_check_finds_inputs_that_are_not_those_of_the_text(tmp_path):
    stem = chapter(tmp_path, PLAIN)
    outputs.refresh(stem)
    text = stem.with_suffix(".md").read_text("utf-8")
    stem.with_suffix(".md").write_text(text.replace("Some text.", "Some other text."), "utf-8")
    assert "inputs are not those of its text" in outputs.check(stem)[0]


def test_comparison_sees_text_kind_and_number_of_outputs_and_leaves_out_ignored_cells():
    def notebook(*outs, tags=()):
        cell = nbformat.v4.new_code_cell("show()", id="a", outputs=list(outs), metadata={"tags": list(tags)})
        return nbformat.v4.new_notebook(cells=[cell])

    def shown(**data):
        return nbformat.v4.new_output(
            "display_data", data={key.replace("_", "/"): value for key, value in data.items()}
        )

    say = nbformat.v4.new_output("stream", name="stdout", text="1.0\n")
    warn = nbformat.v4.new_output("stream", name="stderr", text="1.0\n")
    assert outputs.compare(notebook(say), notebook(say)) == []
    assert outputs.compare(notebook(say), notebook(warn)) != []
    assert outputs.compare(notebook(say), notebook()) != []
    assert outputs.compare(notebook(say), notebook(say, shown(text_plain="x"))) != []
    assert outputs.compare(notebook(shown(text_html="<b>1</b>")), notebook(shown(text_html="<b>2</b>"))) != []
    assert outputs.compare(notebook(shown(image_png="AAAA")), notebook(shown(image_png="BBBB"))) == []
    ignored = ["nbval-ignore-output"]
    assert outputs.compare(notebook(say, tags=ignored), notebook(warn, tags=ignored)) == []


def test_an_ignored_output_is_kept_only_where_nothing_but_numbers_changed():
    def notebook(text, before="x = 1"):
        first = nbformat.v4.new_code_cell("import mhalib", id="a")
        middle = nbformat.v4.new_code_cell(before, id="b")
        out = nbformat.v4.new_output("stream", name="stdout", text=text)
        last = nbformat.v4.new_code_cell("clock()", id="c", outputs=[out], metadata={"tags": ["nbval-ignore-output"]})
        return nbformat.v4.new_notebook(cells=[first, middle, last])

    def result(new, old):
        stable.keep_ignored(new, old)
        return new.cells[-1].outputs[0].text

    assert result(notebook("took 1.25 s"), notebook("took 3.5e-07 s")) == "took 3.5e-07 s"
    assert result(notebook("took 1.25 ms"), notebook("took 3.5 s")) == "took 1.25 ms"
    assert result(notebook("took 1.25 s", before="x = 2"), notebook("took 3.5 s")) == "took 1.25 s"


def test_a_line_that_the_text_cannot_hold_is_refused(tmp_path):
    stem = chapter(tmp_path, PLAIN)
    outputs.refresh(stem)
    notebook = notebook_of(stem)
    notebook.cells[0].source += "\n+++\nmore"
    nbformat.write(notebook, stem.with_suffix(".ipynb"))
    with pytest.raises(outputs.ChapterError, match=r"begins with \+\+\+"):
        outputs.refresh(stem)


def test_an_edit_made_while_the_chapter_runs_is_not_lost(tmp_path):
    stem = chapter(tmp_path, PLAIN)
    edit = "```{code-cell} ipython3\nwith open('02_sample.md', 'a') as file:\n    _ = file.write('an edit')\n```\n"
    stem.with_suffix(".md").write_text(edit, "utf-8")
    with pytest.raises(outputs.ChapterError, match="changed while it ran"):
        outputs.refresh(stem)
    assert stem.with_suffix(".md").read_text("utf-8") == edit + "an edit"
    assert not stem.with_suffix(".ipynb").exists()


def test_a_cell_that_never_ends_and_a_dead_kernel_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "CELL_TIMEOUT", 2)
    with pytest.raises(outputs.ChapterError, match="still running after 2 s"):
        outputs.refresh(chapter(tmp_path, "```{code-cell} ipython3\nwhile True:\n    pass\n```\n"))
    monkeypatch.setattr(outputs, "CELL_TIMEOUT", 60)
    with pytest.raises(outputs.ChapterError, match="kernel died"):
        outputs.refresh(chapter(tmp_path, "```{code-cell} ipython3\nimport os\n\nos._exit(1)\n```\n"))
    assert [path.name for path in tmp_path.iterdir()] == ["02_sample.md"]


def test_streams_are_joined_in_order_and_what_was_written_over_is_dropped():
    def piece(name, text):
        return nbformat.v4.new_output("stream", name=name, text=text)

    picture = nbformat.v4.new_output("display_data", data={"text/plain": "picture"})
    merged = stable.merge_streams(
        [
            piece("stderr", "w1\n"),
            piece("stdout", "a"),
            piece("stdout", "b\n"),
            picture,
            piece("stdout", "10 %\r100 %\n"),
        ]
    )
    assert [(out.get("name"), out.get("text")) for out in merged] == [
        ("stdout", "ab\n"),
        ("stderr", "w1\n"),
        (None, None),
        ("stdout", "100 %\n"),
    ]
