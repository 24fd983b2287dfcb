"""Rebuilding: from whatever was handed in, the answers are taken and nothing else; downloads end where they belong."""

import json
import zipfile

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell
from small_course import STUB, TINY, Course, cell

from tools.grading import assignment, collect, rebuild, shown

RIGHT = {
    "attend": "def attend(query, key, value):\n    return 1",
    "jacobian": "def jacobian(p):\n    return 2",
    "why": "Mine.",
}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return Course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def tiny(course):
    return assignment.load(assignment.Places(course.root), TINY)


@pytest.fixture
def sent(course):
    notebook = course.blank(TINY)
    for name, source in RIGHT.items():
        cell(notebook, name).source = source
    return notebook


def rebuilt(tiny, notebook):
    """(answers by name, notes)"""
    found = rebuild.rebuild(tiny, rebuild.cells_of(json.dumps(notebook).encode()))
    nbformat.validate(found.notebook)
    kept = [(c.get("id"), c.source) for c in found.notebook.cells if not c.metadata.get("nbgrader", {}).get("solution")]
    given = [(c.id, c.source) for c in tiny.notebook.cells if not c.metadata.get("nbgrader", {}).get("solution")]
    assert [pair for pair in kept if not pair[0].startswith("added-")] == given
    return {name: cell(found.notebook, name).source for name in RIGHT}, found.notes


def bare(notebook):
    for each in notebook.cells:
        each.metadata = {}
        each.pop("id", None)
    return notebook


def test_answers_are_taken_and_an_untouched_notebook_gives_no_notes(tiny, course, sent):
    assert rebuilt(tiny, sent) == (RIGHT, [])
    blank, notes = rebuilt(tiny, course.blank(TINY))
    assert notes == []
    assert STUB.split("\n")[1] in blank["attend"]


def test_without_any_metadata_answers_are_found_by_name_and_place(tiny, sent, course):
    answers, notes = rebuilt(tiny, bare(sent))
    assert answers == RIGHT
    assert "why: the answer was found by its place between the given cells" in notes
    assert rebuilt(tiny, bare(course.blank(TINY)))[1] == []


def test_by_the_id_of_the_cell_when_only_that_is_left(tiny, sent):
    for each in sent.cells:
        each.metadata = {"id": each.pop("id")}  # as Colab writes it
    cell_sources = rebuilt(tiny, sent)
    assert cell_sources == (RIGHT, [])


def test_of_several_the_last_that_was_written_in_counts(tiny, sent):
    first = json.loads(json.dumps(cell(sent, "attend")))
    first["source"] = "def attend(query, key, value):\n    return 'first try'"
    stub = json.loads(json.dumps(first)) | {"source": cell(tiny.notebook, "attend").source}
    place = sent.cells.index(cell(sent, "attend"))
    sent.cells[place:place] = [first]
    sent.cells.append(stub)
    answers, notes = rebuilt(tiny, sent)
    assert answers == RIGHT
    assert notes == ["attend: there are 3 cells of this name; the last one written in counts"]


def test_an_answer_written_below_an_untouched_stub_counts(tiny, course):
    notebook = course.blank(TINY)
    notebook.cells.append(new_code_cell(RIGHT["attend"]))
    notebook.cells.append(new_code_cell("def jacobian(p:\n    return 2"))  # no Python, and still the answer
    answers, notes = rebuilt(tiny, notebook)
    assert answers["attend"] == RIGHT["attend"]
    assert answers["jacobian"].startswith("def jacobian(p:")
    assert len(notes) == 2


def test_own_cells_come_along_only_where_an_answer_needs_them(tiny, sent):
    cell(sent, "jacobian").source = "def jacobian(p):\n    return outer(p)"
    sent.cells[1:1] = [
        new_code_cell("from math import tau as turn"),
        new_code_cell("def outer(p):\n    return turn * p"),
        new_code_cell("raise SystemExit"),
    ]
    found = rebuild.rebuild(tiny, rebuild.cells_of(json.dumps(sent).encode()))
    added = [c.source for c in found.notebook.cells if c.id.startswith("added-")]
    assert added == ["from math import tau as turn", "def outer(p):\n    return turn * p"]
    names = [c.metadata.get("nbgrader", {}).get("grade_id") for c in found.notebook.cells]
    assert [c.source for c in found.notebook.cells].index(added[1]) == names.index("jacobian") - 1


def test_an_own_cell_cannot_take_the_place_of_a_given_name(tiny, sent):
    cell(sent, "jacobian").source = "def jacobian(p):\n    return torch.diag(p)"
    sent.cells.insert(2, new_code_cell("class torch:\n    diag = staticmethod(len)"))
    found = rebuild.rebuild(tiny, rebuild.cells_of(json.dumps(sent).encode()))
    assert not any(c.id.startswith("added-") for c in found.notebook.cells)


def test_points_and_locks_are_those_that_were_released(tiny, sent):
    for each in sent.cells:
        if "nbgrader" in each.metadata:
            each.metadata.nbgrader |= {"points": 1000, "locked": False, "grade": True, "solution": True}
    found = rebuild.rebuild(tiny, rebuild.cells_of(json.dumps(sent).encode()))
    assert cell(found.notebook, "check-attend").metadata == cell(tiny.notebook, "check-attend").metadata
    assert [c.metadata for c in found.notebook.cells] == [c.metadata for c in tiny.notebook.cells]


def test_html_in_a_text_is_shown_and_not_run(tiny, sent):
    cell(sent, "why").source = "if a<b then <script>alert(1)</script> <img src=x onerror=alert(1)> a < b"
    answers, notes = rebuilt(tiny, sent)
    assert "<script" not in answers["why"]
    assert "<img" not in answers["why"]
    assert "a < b" in answers["why"]
    assert notes == ["why: HTML in the text is shown as text"]


def test_a_cell_of_another_kind_keeps_its_text(tiny, sent):
    place = sent.cells.index(cell(sent, "why"))
    sent.cells[place] = new_code_cell("Mine.", id="why", metadata=sent.cells[place].metadata)
    assert rebuilt(tiny, sent)[0] == RIGHT


def test_notebooks_of_format_3_are_read(tiny, sent):
    cells = [{"cell_type": c.cell_type, "input": c.source, "metadata": c.metadata} for c in sent.cells]
    old = {"nbformat": 3, "worksheets": [{"cells": cells}]}
    assert rebuilt(tiny, old) == (RIGHT, [])


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["attend", "why", "code"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["cells", "source", "metadata", "nbgrader", "grade_id", "id", "cell_type", "input", "x"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JUNK | st.builds(lambda cells: {"cells": cells}, st.lists(JUNK, max_size=5)))
def test_whatever_is_in_the_file_it_is_rebuilt_or_refused(tiny, junk):
    data = json.dumps(junk).encode("utf-8", "surrogatepass")
    try:
        cells = rebuild.cells_of(data)
    except rebuild.Unreadable:
        return
    found = rebuild.rebuild(tiny, cells)
    nbformat.validate(found.notebook)
    json.dumps(found.notebook).encode()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"cells": 5}'])
def test_files_that_are_no_notebooks_are_refused(data):
    with pytest.raises(rebuild.Unreadable):
        rebuild.cells_of(data)


def test_links_folders_and_huge_files_are_refused(tmp_path):
    (tmp_path / "real.ipynb").write_text("{}")
    (tmp_path / "link.ipynb").symlink_to(tmp_path / "real.ipynb")
    (tmp_path / "folder.ipynb").mkdir()
    with open(tmp_path / "huge.ipynb", "wb") as file:
        file.truncate(rebuild.MAX_BYTES + 1)
    assert rebuild.read(tmp_path / "real.ipynb") == b"{}"
    for name, why in (("link", "no link"), ("folder", "is not a file"), ("huge", "larger than 32 MiB")):
        with pytest.raises(rebuild.Unreadable, match=why):
            rebuild.read(tmp_path / f"{name}.ipynb")


# --------------------------------------------------------------------------------------------------- what cells showed


@given(JUNK | st.lists(st.fixed_dictionaries({"output_type": st.sampled_from(["stream", "error"]), "text": JUNK})))
def test_outputs_are_plain_whatever_was_sent(junk):
    kept = [nbformat.from_dict(output) for output in shown.clean(junk, 100)]
    nbformat.validate(nbformat.v4.new_notebook(cells=[new_code_cell(outputs=kept), new_markdown_cell()]))


def test_only_text_and_pictures_are_kept_and_not_too_much(tmp_path):
    picture = "iVBORw0KGgoAAAANSUhEUg=="
    data = {"text/plain": "x" * 5000, "text/html": "<b>", "application/javascript": "1", "image/svg+xml": "<svg/>"}
    kept = shown.clean([{"output_type": "display_data", "data": data | {"image/png": picture}}] * 2, 100)
    assert set(kept[0]["data"]) == {"text/plain", "image/png"}
    assert kept[0]["data"]["image/png"] == picture
    assert sum(len(output["data"]["text/plain"]) for output in kept) == 2100
    for forged in ('"><script>', "AAAA", 5, picture + '"'):
        kept = shown.clean([{"output_type": "display_data", "data": {"image/png": forged}}], 100)
        assert set(kept[0]["data"]) == {"text/plain"}


# ----------------------------------------------------------------------------------------------------------- downloads


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("Jane Doe_12345_assignsubmission_file_/02 (1).ipynb", "Jane-Doe"),
        ("jane/tiny.ipynb", "jane"),
        ("doejane_LATE_123_456_tiny-1.ipynb", "doejane"),
        ("김민지_777_assignsubmission_file/tiny.ipynb", "김민지"),
        ("../../etc/tiny.ipynb", "etc"),
    ],
)
def test_downloads_are_sorted_by_student(tmp_path, path, student):
    course = Course(tmp_path / "course")
    places = assignment.Places(course.root)
    tiny = assignment.load(places, TINY)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr(path, "{}")
        archive.writestr("__MACOSX/._tiny.ipynb", "junk")
    assert collect.collect(tmp_path / "all.zip", places, tiny) == f"1 students: {student}"
    assert (places.submitted / student / TINY / "tiny.ipynb").read_text() == "{}"
    found = [path for path in (tmp_path / "course" / "grading").rglob("*") if path.is_file()]
    assert len(found) == 1
    folder = tmp_path / "download" / "x"
    folder.mkdir(parents=True)
    (folder / "a.ipynb").write_text("{}")
    (folder / "b.ipynb").write_text("{}")
    collect.collect(tmp_path / "download", places, tiny)
    assert sorted(p.name for p in (places.submitted / "x" / TINY).iterdir()) == ["a.ipynb", "b.ipynb"]


def test_what_is_no_download_is_refused(tmp_path):
    course = Course(tmp_path / "course")
    places = assignment.Places(course.root)
    tiny = assignment.load(places, TINY)
    (tmp_path / "x.txt").write_text("no zip")
    for path, why in ((tmp_path / "x.txt", "neither a folder nor a zip"), (tmp_path, "holds no .ipynb")):
        with pytest.raises(assignment.GradingError, match=why):
            collect.collect(tmp_path / "x.txt" if path.is_file() else _empty(tmp_path), places, tiny)


def _empty(folder):
    (folder / "empty").mkdir(exist_ok=True)
    return folder / "empty"
