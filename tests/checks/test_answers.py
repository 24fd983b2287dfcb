"""The files of wrong and right answers are read cell by cell, and what is not in their form is refused."""

import traceback

import jupytext
import pytest
from answers import FOLDER, all_answers, read

GOOD = """# %% wrong: 32 bits
# finding: 32 bits
# Who forgets that a product is longer than its factors.
import math


def tile():
    return math.inf


# %% right: loop
# One after the other.
def tile():
    return 1 / 0
"""


def written(tmp_path, text):
    path = tmp_path / "09_gpu_kernels" / "tile.py"
    path.parent.mkdir()
    path.write_text(text, "utf-8")
    return path


def test_each_cell_is_one_answer(tmp_path):
    wrong, right = read(written(tmp_path, GOOD))
    assert (wrong.kind, wrong.name, wrong.finding) == ("wrong", "32 bits", "32 bits")
    assert wrong.author == "# Who forgets that a product is longer than its factors."
    assert wrong.label == "09_gpu_kernels/tile/wrong_32_bits"
    assert wrong.exercise == right.exercise == "09.tile"
    assert (right.kind, right.name, right.finding) == ("right", "loop", None)
    assert right.author == "# One after the other."
    assert right.source == "# One after the other.\ndef tile():\n    return 1 / 0\n"
    assert wrong.value("tile")() == float("inf")


def test_a_cell_knows_nothing_of_the_others(tmp_path):
    *_, last = read(written(tmp_path, GOOD.replace("1 / 0", "math.pi")))
    with pytest.raises(NameError, match="math"):
        last.value("tile")()


def test_a_traceback_shows_the_line_of_the_file(tmp_path):
    path = written(tmp_path, GOOD)
    *_, last = read(path)
    with pytest.raises(ZeroDivisionError) as caught:
        last.value("tile")()
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.line) == (str(path), "return 1 / 0")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "# %% right: loop",
            "# %% wrong: 32 bits",
            r"tile\.py:11: got '# %% wrong: 32 bits' again; ",
        ),
        (
            "# %% right: loop",
            "# %% correct: loop",
            r"tile\.py:11: got '# %% correct: loop'; accepted are ",
        ),
        ("# %% right: loop", "# %% right", r"tile\.py:11: got '# %% right'; accepted are"),
        ("# %% right: loop", "# %%", r"tile\.py:11: got '# %%'; accepted are"),
        ("# %% wrong: 32 bits\n", "", r"tile\.py: got '# finding: 32 bits.*' first; accepted is a line such as"),
        ("# %% right: loop", "# %% right: nothing\n\n# %% right: loop", r"got no code under '# %% right: nothing'"),
        (GOOD, "", r"tile\.py: got '' first; accepted is a line such as"),
    ],
)
def test_another_form_is_refused(tmp_path, old, new, message):
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path, GOOD.replace(old, new)))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/*.py")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_jupytext_reads_the_same_cells(path):
    cells = jupytext.read(path, fmt="py:percent").cells
    assert [cell.source + "\n" for cell in cells] == [answer.source for answer in read(path)]


def test_no_answer_lies_elsewhere():
    assert {path for path in FOLDER.rglob("*") if path.is_file()} == {answer.path for answer in all_answers()}
