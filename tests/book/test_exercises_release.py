"""exercises/ is what nbgrader makes of solutions/, the same every time, whole or untouched, and tells no answer."""

import copy
import multiprocessing
import os
import shutil
import signal
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.book import exercises, stable, twins

NAMES = exercises.names()
METADATA = {"kernelspec": stable.KERNELSPEC, "language_info": stable.LANGUAGE_INFO}
METADATA |= {"jupytext": {"default_lexer": "ipython3"}}


def committed(name):
    return twins.ROOT / "exercises" / name / f"{name}.ipynb"


def test_every_set_of_exercises_is_released_and_nothing_else():
    assert NAMES
    have = exercises.contents(twins.ROOT / "exercises")
    assert set(have) == {f"{name}/{name}.ipynb" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_committed_exercises_are_what_their_solutions_give(name):
    assert committed(name).read_bytes() == exercises.generate(name).encode(), "run `python -m tools.book.exercises`"


@pytest.mark.parametrize("name", NAMES)
def test_committed_exercises_tell_no_answer(name):
    released, solution = (nbformat.read(path, as_version=4) for path in (committed(name), solution_of(name)))
    nbformat.validate(released)
    assert exercises.leaks(released, solution) == []
    ids = [cell.id for cell in released.cells]
    assert len(set(ids)) == len(ids)


def solution_of(name):
    return twins.ROOT / "solutions" / name / f"{name}.ipynb"


@pytest.mark.parametrize("name", NAMES)
def test_unsolved_notebook_says_where_to_begin_and_shows_no_traceback(name):
    notebook = nbformat.read(committed(name), as_version=4)
    folder = {"metadata": {"path": str(committed(name).parent)}}
    # A report that takes a while to print arrives in several messages; they are one output, as JupyterLab shows them.
    options = {"timeout": 300, "allow_errors": True, "coalesce_streams": True, "resources": folder}
    NotebookClient(notebook, kernel_name="python3", **options).execute()
    checks = [cell for cell in notebook.cells if cell.source.startswith("checks.check(")]
    assert checks
    for cell in checks:
        said, error = cell.outputs
        assert "✗ not written yet" in said.text
        assert error.ename == "NotYet"
        assert error.traceback == ["Not yet. Change your answer, run its cell, and run this cell again."]


# A course of its own, in which things go wrong.


def marks(name, **kinds):
    data = {"grade": False, "solution": False, "locked": False, "schema_version": 3, "task": False, "grade_id": name}
    return {"nbgrader": {**data, **kinds}}


def answer(text="    return 40 + 2"):
    source = f"def answer():\n    ### BEGIN SOLUTION\n{text}\n    ### END SOLUTION"
    return new_code_cell(source, metadata=marks("answer", solution=True), execution_count=1)


def a_set(root, name="01_sample", text="    return 40 + 2"):
    """A course with one set of exercises; returns the path of its solution without suffix."""
    written = "### BEGIN SOLUTION\nForty-two, because six by nine is not what was asked.\n### END SOLUTION"
    said = new_output("stream", name="stdout", text="42\n")
    check = marks("check-answer", grade=True, locked=True, points=2)
    cells = [
        new_markdown_cell("# Sample"),
        answer(text),
        new_code_cell("print(answer())", metadata=check, execution_count=2, outputs=[said]),
        new_markdown_cell(written, metadata=marks("why", grade=True, solution=True, points=3)),
    ]
    for index, cell in enumerate(cells):
        cell.id = f"cell-{index}"
    stem = root / "solutions" / name / name
    stem.parent.mkdir(parents=True)
    shutil.copy(twins.ROOT / "nbgrader_config.py", root)
    notebook = new_notebook(cells=cells, metadata=METADATA)
    save(stem, notebook)
    return stem


def save(stem, notebook):
    nbformat.write(notebook, stem.with_suffix(".ipynb"))
    as_written = nbformat.read(stem.with_suffix(".ipynb"), as_version=4)  # its metadata in order
    stem.with_suffix(".md").write_text(twins.text_of(as_written), "utf-8")


def files(root):
    return exercises.contents(root / "exercises")


def test_twice_the_same_bytes_and_nothing_but_the_notebook(tmp_path, capsys):
    stem = a_set(tmp_path)
    (stem.parent / "notes.txt").write_text("forty-two", "utf-8")
    assert exercises.main([], root=tmp_path) == 0
    first = files(tmp_path)
    assert list(first) == ["01_sample/01_sample.ipynb"]
    assert b"raise NotImplementedError()" in first["01_sample/01_sample.ipynb"]
    assert "40 + 2" not in first["01_sample/01_sample.ipynb"].decode()
    assert exercises.main([], root=tmp_path) == 0
    assert files(tmp_path) == first
    assert capsys.readouterr().out == "01_sample: wrote it\n01_sample: no change\n"


def test_one_set_by_name_leaves_the_others_and_all_sets_remove_what_has_no_solution(tmp_path, capsys):
    a_set(tmp_path)
    a_set(tmp_path, "02_other")
    assert exercises.main(["01_sample"], root=tmp_path) == 0
    assert exercises.main(["solutions/02_other"], root=tmp_path) == 0
    assert set(files(tmp_path)) == {"01_sample/01_sample.ipynb", "02_other/02_other.ipynb"}
    shutil.rmtree(tmp_path / "solutions" / "02_other")
    assert exercises.main([], root=tmp_path) == 0
    assert set(files(tmp_path)) == {"01_sample/01_sample.ipynb"}
    assert "02_other: removed" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exercises", "nbgrader_config.py", "solutions"]


def test_check_compares_and_writes_nothing(tmp_path, capsys):
    a_set(tmp_path)
    assert exercises.main(["--check"], root=tmp_path) == 1
    assert not (tmp_path / "exercises").exists()
    exercises.main([], root=tmp_path)
    assert exercises.main(["--check"], root=tmp_path) == 0
    (tmp_path / "exercises" / "01_sample" / "01_sample.md").write_text("the text twin", "utf-8")
    assert exercises.main(["--check"], root=tmp_path) == 1
    assert "01_sample.md is not what its solution gives" in capsys.readouterr().out


def no_end(notebook):
    notebook.cells[1].source = notebook.cells[1].source.replace("END SOLUTION", "the end")


def unmarked(notebook):
    del notebook.cells[1].metadata["nbgrader"]


def twice_the_same_id(notebook):
    notebook.cells[2].metadata.nbgrader.grade_id = "answer"


def answer_in_the_text(notebook):
    notebook.cells[0].source += "\n\nThink of\n\n```\nreturn 40 + 2\n```"


def written_answer_in_the_text(notebook):
    notebook.cells[0].source += "\n\nForty-two, because six by nine is not what was asked."


def no_region(notebook):
    notebook.cells[1].source = "answer = 42"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (no_end, "No end solution statement"),
        (unmarked, "Solution region detected in a non-solution cell"),
        (twice_the_same_id, "Duplicate grade id"),
        (answer_in_the_text, "the answer of cell 1 (answer) stands in the released text"),
        (written_answer_in_the_text, "the answer of cell 3 (why) stands in the released text"),
        (no_region, "cell 1 (answer) is an answer without a region"),
    ],
)
def test_a_set_that_would_leak_is_refused_and_the_old_state_stays(tmp_path, capsys, fault, message):
    stem = a_set(tmp_path)
    exercises.main([], root=tmp_path)
    before = files(tmp_path)
    notebook = nbformat.read(stem.with_suffix(".ipynb"), as_version=4)
    fault(notebook)
    save(stem, notebook)
    a_set(tmp_path, "00_fine")
    assert exercises.main([], root=tmp_path) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.endswith("nothing written\n")
    assert files(tmp_path) == before


def test_a_text_that_was_not_run_is_refused(tmp_path, capsys):
    stem = a_set(tmp_path)
    stem.with_suffix(".md").write_text(stem.with_suffix(".md").read_text("utf-8").replace("Sample", "Simple"), "utf-8")
    assert exercises.main([], root=tmp_path) == 1
    assert "run `python -m tools.book.outputs solutions/01_sample`" in capsys.readouterr().err


def test_an_unknown_name_is_refused(tmp_path, capsys):
    a_set(tmp_path)
    assert exercises.main(["02_none"], root=tmp_path) == 1
    assert "there is no solutions/02_none/02_none.ipynb; there are: 01_sample" in capsys.readouterr().err


def left_words(released):
    released.cells[0].source += "\n### BEGIN HIDDEN TESTS"


def left_output(released):
    released.cells[2].outputs = [new_output("stream", name="stdout", text="42\n")]


def left_count(released):
    released.cells[2].execution_count = 2


def left_widgets(released):
    released.metadata["widgets"] = {stable.STATE: {"state": {}}}


def left_attachment(released):
    released.cells[0]["attachments"] = {"a.png": {"image/png": "AAAA"}}


def left_answer(released):
    released.cells[1].source = "def answer():\n  return 40 + 2  # the same"


def lost_cell(released):
    del released.cells[0]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (left_words, "the words HIDDEN TESTS are left in it"),
        (left_output, "cell 2 carries an output"),
        (left_count, "cell 2 carries an output"),
        (left_widgets, "it carries widgets"),
        (left_attachment, "cell 0 carries an output"),
        (left_answer, "the answer of cell 1 (answer) stands in the released text"),
        (lost_cell, "4 cells became 3"),
    ],
)
def test_each_leak_is_found(tmp_path, fault, message):
    stem = a_set(tmp_path)
    solution = nbformat.read(stem.with_suffix(".ipynb"), as_version=4)
    released = nbformat.reads(exercises.generate("01_sample", tmp_path), as_version=4)
    assert exercises.leaks(released, solution) == []
    broken = copy.deepcopy(released)
    fault(broken)
    assert any(message in finding for finding in exercises.leaks(broken, solution))


def test_widgets_and_ids_made_from_an_answer_are_taken_out(tmp_path):
    """The id of a solution's cell is a hash of its text: a guess at the answer could be tried on it."""
    stem = a_set(tmp_path)
    notebook = nbformat.read(stem.with_suffix(".ipynb"), as_version=4)
    notebook.metadata["widgets"] = {stable.STATE: {"state": {"m": {}}}}
    save(stem, notebook)
    released = nbformat.reads(exercises.generate("01_sample", tmp_path), as_version=4)
    assert [cell.id for cell in released.cells] == ["cell-0", "answer", "check-answer", "why"]
    assert "widgets" not in released.metadata


# A run that is killed.

OLD = {f"{n:02}_set": f"old {n}\n" for n in (0, 1, 3)}
NEW = {f"{n:02}_set": f"new {n}\n" for n in (0, 1, 2)}


def whole(state):
    return {f"{name}/{name}.ipynb": text.encode() for name, text in state.items()}


def write_and_die(root, event, time):
    """Write the new state, and be killed before the given system call happens for the given time."""
    count = 0

    def hook(seen, _):
        nonlocal count
        count += seen == event
        if seen == event and count == time:  # the kill is a call of its own, which comes here too
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    exercises.write(NEW, root, complete=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is started and killed as Unix does it")
@pytest.mark.parametrize(
    ("event", "time"), [*(("os.rename", n) for n in (1, 2, 3)), *((f"os.{e}", 1) for e in ("mkdir", "remove", "rmdir"))]
)
def test_a_killed_run_leaves_every_file_whole_and_the_next_one_does_the_rest(tmp_path, event, time):
    exercises.write(OLD, tmp_path, complete=True)
    process = multiprocessing.get_context("fork").Process(target=write_and_die, args=(tmp_path, event, time))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    found = {path: data for path, data in files(tmp_path).items() if not Path(path).name.startswith(".")}
    assert all(data in (whole(OLD).get(path), whole(NEW).get(path)) for path, data in found.items())
    assert whole(NEW).keys() <= found.keys() or whole(OLD).keys() <= found.keys(), "removed before all was written"
    exercises.write(NEW, tmp_path, complete=True)
    assert files(tmp_path) == whole(NEW)
    assert {path.name for path in (tmp_path / "exercises").iterdir()} == set(NEW)
    assert exercises.write(NEW, tmp_path, complete=True) == []


def test_what_a_notebook_server_keeps_is_not_removed(tmp_path):
    exercises.write(OLD, tmp_path, complete=True)
    kept = tmp_path / "exercises" / "03_set" / ".ipynb_checkpoints" / "03_set-checkpoint.ipynb"
    kept.parent.mkdir()
    kept.write_text("an answer", "utf-8")
    exercises.write(NEW, tmp_path, complete=True)
    assert files(tmp_path) == whole(NEW)
    assert kept.read_text("utf-8") == "an answer"
