"""Chapters: every rule of tools/book/lint.py holds for each, and the same text comes out on other processors.

The second half breaks a good small chapter in one way after another and sees each rule report it.
"""

import base64
import copy
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.book import first_cell, lint, markup, outputs, stable, twins

STEMS = twins.stems()
CHAPTERS = [stem for stem in STEMS if stem.parent.name == "chapters"]
RULES = {rule.__name__: rule for rule in lint.RULES}
PLAIN_CPU = {"ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"}


def by_name(stem):
    return stem.name if stem in CHAPTERS else f"solutions-{stem.name}"


def test_there_are_chapters():
    """Without this a course without chapters would pass: the tests below would have nothing to look at."""
    assert {stem.name[:2] for stem in CHAPTERS} >= {"00", "02", "03", "04", "05"}
    assert all(re.fullmatch(r"\d\d_[a-z0-9_]+", stem.name) for stem in CHAPTERS)


ASKED = [
    pytest.param(path, name, id=f"{by_name(stem)}-{name}")
    for stem in STEMS
    for path in [stem.with_name(stem.name + ".ipynb")]
    for name, rule in RULES.items()
    if rule in lint.asked_of(path)
]


@pytest.mark.parametrize(("path", "rule"), ASKED)
def test_rule(path, rule):
    findings = RULES[rule](nbformat.read(path, as_version=4), path)
    assert not findings, "\n".join([RULES[rule].__doc__, *findings])


@pytest.mark.parametrize("stem", CHAPTERS, ids=by_name)
def test_same_text_on_another_processor(stem):
    """Strict: no digit is rounded. torch's plain code path and one thread stand for another machine.

    On this machine nbval proves the same of every chapter and every solution.
    """
    findings = outputs.check(stem, environment=PLAIN_CPU)
    assert not findings, "\n".join(["with torch's plain code path and one thread:", *findings])


def test_the_processor_setting_reaches_torch(tmp_path):
    source = "import torch\nprint(torch.backends.cpu.get_cpu_capability(), torch.get_num_threads())"
    inputs = new_notebook(cells=[new_code_cell(source)])
    ran = outputs.execute(inputs, tmp_path, name="x", environment=PLAIN_CPU)
    assert ran.cells[0].outputs[0].text == "DEFAULT 1\n"


# The rules themselves.

PIXEL = base64.b64encode(b"not really a picture").decode()
SECTIONS = """## Something to play with
Move it.
## Where it goes wrong
There.
## Say it right
So.
## Summary
Five lines.
## Terms
[attention](../site/glossary.md#attention) 어텐션
## Sources
A paper."""


def said(text):
    return new_output("stream", name="stdout", text=text)


def picture(alt="a map", kind="display_data"):
    data = {"image/png": PIXEL, "text/plain": alt}
    return new_output(kind, data=data, metadata={"image/png": {"alt": alt}})


def good_chapter(folder):
    """A small chapter that passes every rule; returns the notebook and its path."""
    (folder / "site").mkdir()
    (folder / "chapters").mkdir()
    (folder / "site" / "glossary.md").write_text('# Glossary\n\n<a id="attention"></a>\n\n## Two words\n', "utf-8")
    view = {stable.VIEW: {"model_id": "m1"}, "text/plain": "Label()"}
    code = [
        new_code_cell(
            first_cell.expected(), metadata={"tags": ["nbval-ignore-output"]}, outputs=[said("mhalib 0.1.0\n")]
        ),
        new_code_cell("print(0.5)", outputs=[said("0.5\n")]),
        new_code_cell("assert 0.5 == 1 / 2\nprint(2)", outputs=[said("2\n")]),
        new_code_cell("show(figure, 'a map')", outputs=[picture()]),
        new_code_cell("heads()", outputs=[new_output("display_data", data=view)]),
        *(new_code_cell(f"print('{word}')", outputs=[said(f"{word}\n")]) for word in "abcdefgh"),
    ]
    for number, cell in enumerate(code, 1):
        cell.execution_count = number
    opening = "# 02 · Sample\n\n**How long is it?** See `{name}` in the code. 5 minutes to read, 3 seconds to run."
    links = (
        "A [link](02_sample.ipynb), [another](https://example.org/), [a term](../site/glossary.md#two-words), $x$.\n"
    )
    example = links + "```python\n:::\nf'{a}`'\n```\n![a bar](bar.png)"
    (folder / "chapters" / "bar.png").write_bytes(b"bar")
    cells = [new_markdown_cell(opening), *code, new_markdown_cell(example), new_markdown_cell(SECTIONS)]
    state = {"m1": {"model_name": "LabelModel", "state": {"_esm": "export default {render() {}}"}}}
    notebook = new_notebook(cells=cells, metadata={"widgets": {stable.STATE: {"state": state}}})
    path = folder / "chapters" / "02_sample.ipynb"
    nbformat.write(notebook, path)
    return notebook, path


def code_cell(notebook, number):
    return [cell for cell in notebook.cells if cell.cell_type == "code"][number - 1]


def outs(number, *new):
    return lambda notebook: code_cell(notebook, number).update(outputs=list(new))


def source(number, text):
    return lambda notebook: code_cell(notebook, number).update(source=text)


def tagged(number, *tags):
    return lambda notebook: code_cell(notebook, number).metadata.update(tags=list(tags))


def prose(text):
    return lambda notebook: notebook.cells.append(new_markdown_cell(text))


def replaced(old, new):
    def change(notebook):
        assert any(old in cell.source for cell in notebook.cells)
        for cell in notebook.cells:
            cell.source = cell.source.replace(old, new)

    return change


def html(text):
    return new_output("display_data", data={"text/html": text, "text/plain": "<table>"})


def counts(*values):
    return lambda notebook: [
        cell.update(execution_count=value)
        for cell, value in zip((c for c in notebook.cells if c.cell_type == "code"), values, strict=False)
    ]


def esm(text):
    return lambda notebook: notebook.metadata.widgets[stable.STATE]["state"]["m1"]["state"].update(_esm=text)


def no_asserts(notebook):
    code_cell(notebook, 3).source = "print(2)"
    code_cell(notebook, 6).outputs = [said("6\n")]


ERROR = new_output("error", ename="ValueError", evalue="no", traceback=[])
FAULTS = [
    ("executed", counts(2, 1), "execution counts are [2, 1, 3"),
    ("executed", counts(None, None), "execution counts are [None, None"),
    ("executed", source(2, ""), "empty code cell"),
    ("no_errors", outs(2, ERROR), "code cell 2 shows ValueError: no"),
    ("short_cells", source(2, "x = 1\n" * 41), "code cell 2 has 41 lines"),
    ("short_cells", lambda nb: [source(n, "x = 1\n" * 7)(nb) for n in range(2, 10)], "median code cell has 7"),
    ("alt_texts", outs(4, new_output("display_data", data={"image/png": PIXEL})), "code cell 4 shows a picture"),
    ("alt_texts", outs(4, picture(alt="  ", kind="execute_result")), "code cell 4 shows a picture"),
    ("alt_texts", prose("![](bar.png)"), "the picture bar.png"),
    ("alt_texts", prose("<img src='bar.png'>"), "an <img> (bar.png)"),
    ("alt_texts", outs(3, html("<img src='data:image/png;base64,AAAA'>")), "an <img> (data:"),
    ("nothing_remote", prose("![a](https://example.org/a.png)"), "a picture from https://example.org/a.png"),
    ("nothing_remote", prose("<img alt='a' src='//example.org/a.png'>"), "loads //example.org/a.png in a <img>"),
    ("nothing_remote", prose("<script>1</script>"), "contains a <script>"),
    ("nothing_remote", prose("<iframe src='x.html'></iframe>"), "contains a <iframe>"),
    ("nothing_remote", outs(3, html("<script src='https://cdn.example.org/x.js'></script>")), "code cell 3 loads"),
    ("nothing_remote", outs(3, html("<script>require('x'); import('https://x.org/y.js')</script>")), "import('https:"),
    ("nothing_remote", outs(3, html("<style>@import 'https://x.org/y.css'</style>")), "code cell 3 loads"),
    ("nothing_remote", outs(3, new_output("display_data", data={"application/javascript": "1"})), "is a script"),
    ("nothing_remote", source(3, "IFrame('https://example.org', 1, 1)"), "code cell 3 contains"),
    ("nothing_remote", esm('import * as d3 from "https://esm.example.org/d3";'), "a widget loads"),
    ("compared", tagged(2, "nbval-ignore-output"), "2 of 13 cells with text output"),
    ("compared", source(2, "# NBVAL_IGNORE_OUTPUT\nprint(0.5)"), "2 of 13 cells with text output"),
    ("compared", tagged(2, "nbval-skip"), "2 of 13 cells with text output"),
    ("no_directives", prose("```{note}\nSo.\n```"), "directive ```{note}"),
    ("no_directives", prose(":::{note}\nSo.\n:::"), "a line :::{note}"),
    ("no_directives", prose("See {cite}`vaswani`."), "the role {cite}`vaswani`"),
    ("no_directives", prose("(label)=\n## A step"), "the label (label)="),
    ("common_first_cell", lambda nb: nb.cells.insert(1, new_code_cell("import os")), "is not the common one"),
    ("common_first_cell", source(1, first_cell.expected("git+https://example.org/x")), "differs from the common one"),
    ("common_first_cell", tagged(1), "tags are []"),
    ("parts", replaced("# 02 · Sample", "# Sample"), "title '# 02 · …'"),
    ("parts", replaced("How long is it?", "How long it is."), "asks no question"),
    ("parts", replaced("5 minutes", "5 hours"), "how many minutes"),
    *(("parts", replaced(f"## {name}\n", "## Else\n"), f"no section '## {name}'") for name in lint.HEADINGS),
    ("parts", replaced("Five lines.\n", ""), "'## Summary' is empty"),
    ("parts", replaced("어텐션", ""), "not given in Korean"),
    ("parts", replaced("../site/glossary.md#attention", "#terms"), "not linked to the glossary"),
    ("asserted", no_asserts, "only 0 of 3 cells that print numbers have an assert there or next; not: 2, 3, 6"),
    ("links", prose("[gone](03_gone.ipynb)"), "03_gone.ipynb leads to no file"),
    ("links", prose("[gone](../site/glossary.md#nothing)"), "no heading or anchor of glossary.md"),
    ("links", prose("![gone](gone.png)"), "gone.png leads to no file"),
    ("widgets_stored", lambda nb: nb.metadata.pop("widgets"), "code cell 5 shows a widget whose state is not"),
    ("widgets_stored", lambda nb: nb.metadata.widgets.update({stable.STATE: {}}), "holds no 'state'"),
    ("no_local_paths", outs(3, said("/home/me/lib/x.py:3: UserWarning\n")), "code cell 3 names a folder"),
]


def test_a_good_chapter_passes_every_rule(tmp_path):
    notebook, path = good_chapter(tmp_path)
    assert {name: found for name, rule in RULES.items() if (found := rule(notebook, path))} == {}


@pytest.mark.parametrize(
    ("rule", "fault", "finding"), FAULTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_fault_is_found_by_its_rule(tmp_path, rule, fault, finding):
    notebook, path = good_chapter(tmp_path)
    broken = copy.deepcopy(notebook)
    fault(broken)
    found = RULES[rule](broken, path)
    assert len(found) >= 1
    assert finding in "\n".join(found)


def test_a_large_file_is_found(tmp_path):
    notebook, path = good_chapter(tmp_path)
    path.write_text(path.read_text("utf-8") + " " * lint.MAX_BYTES, "utf-8")
    assert "the limit is 1,000,000" in lint.small(notebook, path)[0]


def test_every_rule_has_a_fault_that_it_must_find():
    assert {rule for rule, _, _ in FAULTS} | {"small"} == set(RULES)


def test_an_error_is_allowed_where_it_is_announced(tmp_path):
    notebook, path = good_chapter(tmp_path)
    outs(2, ERROR)(notebook)
    tagged(2, "raises-exception")(notebook)
    assert lint.no_errors(notebook, path) == []


def test_chapter_00_needs_its_title_and_not_the_parts(tmp_path):
    notebook, path = good_chapter(tmp_path)
    notebook.cells = [new_markdown_cell("# 00 · Start here")]
    assert lint.parts(notebook, path.with_name("00_start_here.ipynb")) == []
    notebook.cells = [new_markdown_cell("# Start here")]
    assert len(lint.parts(notebook, path.with_name("00_start_here.ipynb"))) == 1


def test_links_for_people_and_code_are_no_remote_resources(tmp_path):
    notebook, path = good_chapter(tmp_path)
    prose("[paper](https://example.org), <a href='https://example.org'>x</a>, `<script src='https://x.org'>`")(notebook)
    source(3, "url = 'https://example.org'")(notebook)
    assert markup.nothing_remote(notebook, path) == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SOURCES.md", "site/glossary.md"])
def test_links_of_the_other_pages(name):
    path = twins.ROOT / name
    page = new_notebook(cells=[new_markdown_cell(path.read_text("utf-8"))])
    assert lint.links(page, path) + markup.nothing_remote(page, path) == []


def test_a_set_of_exercises_is_spared_two_gates_and_looks_for_the_clone_two_folders_up(tmp_path):
    notebook, path = good_chapter(tmp_path)
    set_path = tmp_path / "solutions" / "02_sample" / "02_sample.ipynb"
    spared = {rule.__name__ for rule in set(lint.asked_of(path)) - set(lint.asked_of(set_path))}
    assert spared == {"parts", "asserted"}
    assert "differs from the common one" in lint.common_first_cell(notebook, set_path)[0]
    set_path.parent.mkdir(parents=True)
    nbformat.write(notebook, set_path)
    assert first_cell.write(set_path.with_suffix("")) == ["02_sample.ipynb"]
    after = nbformat.read(set_path, as_version=4)
    assert lint.common_first_cell(after, set_path) == []
    assert 'sys.path.insert(0, "../..")' in code_cell(after, 1).source


def test_readme_lists_every_chapter():
    readme = (twins.ROOT / "README.md").read_text("utf-8")
    assert [stem.name for stem in CHAPTERS] == re.findall(r"\]\(chapters/(\d\d_\w+)\.ipynb\)", readme)


# The common first cell.


def test_first_cell_carries_the_address_of_pyproject(tmp_path):
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text('[tool.mhalib]\nsource = "git+https://example.org/o/r@v1"\n', "utf-8")
    cell = first_cell.expected(first_cell.source(pyproject))
    assert '\nSOURCE = "git+https://example.org/o/r@v1"  # `source`' in cell
    assert first_cell.expected() == cell.replace("git+https://example.org/o/r@v1", first_cell.source())
    assert '%pip install --quiet --no-deps "{SOURCE}"' in cell


@pytest.mark.parametrize("address", ['"a b"', "'a\"b'", '"x{y}"', '"$HOME"', "3"])
def test_an_address_that_would_not_stand_on_a_command_line_is_refused(tmp_path, address):
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text(f"[tool.mhalib]\nsource = {address}\n", "utf-8")
    with pytest.raises(ValueError, match="it must be a string without spaces"):
        first_cell.source(pyproject)


@pytest.mark.parametrize("there", [True, False], ids=["replaced", "inserted"])
def test_first_cell_is_written_into_both_twins_and_outputs_stay(tmp_path, there):
    notebook, path = good_chapter(tmp_path)
    stem = path.with_suffix("")
    if not there:
        del notebook.cells[1]
    notebook.metadata.update(kernelspec=stable.KERNELSPEC, jupytext={"default_lexer": "ipython3"})
    nbformat.write(notebook, path)
    stem.with_suffix(".md").write_text(twins.text_of(notebook), "utf-8")
    address = "git+https://example.org/o/r@v1"
    assert first_cell.write(stem, address) == ["02_sample.md", "02_sample.ipynb"]
    assert twins.differences(stem) == []
    after = nbformat.read(path, as_version=4)
    assert first_cell.findings(after, address) == []
    assert f'SOURCE = "{address}"' in code_cell(after, 1).source
    assert [cell.outputs for cell in after.cells if cell.cell_type == "code"][1:] == [
        cell.outputs for cell in notebook.cells if cell.cell_type == "code"
    ][there:]
    assert first_cell.write(stem, address) == []


def test_first_cell_says_what_to_set_where_mhalib_is_nowhere(tmp_path):
    """In an empty folder, without mhalib and without an address, the cell names SOURCE."""
    hide = new_code_cell('import sys\n\nsys.modules["mhalib"] = None  # as if it were installed nowhere')
    cells = [hide, new_code_cell(first_cell.expected(""))]
    with pytest.raises(outputs.ChapterError, match="ModuleNotFoundError: mhalib is not here: set SOURCE above"):
        outputs.execute(new_notebook(cells=cells), tmp_path, name="x")
