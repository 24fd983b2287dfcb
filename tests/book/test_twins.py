"""Twins: every chapter's text and notebook have the same inputs, and a difference is found whatever the clock says."""

import os
import shutil

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.book import twins
from tools.book.stable import KERNELSPEC, LANGUAGE_INFO

METADATA = {"kernelspec": KERNELSPEC, "language_info": LANGUAGE_INFO, "jupytext": {"default_lexer": "ipython3"}}


def write_pair(folder, name="02_sample"):
    said = new_output("stream", name="stdout", text="3\n")
    cells = [
        new_markdown_cell("# 02 · Sample\n\nWhy is $a \\cdot b$ a number?"),
        new_markdown_cell("A second text cell, with `code` and a table:\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
        new_code_cell("print(1 + 2)  # three", execution_count=1, outputs=[said]),
        new_code_cell(
            '%time total = 1\nassert total == 1, "a: b"', execution_count=2, metadata={"tags": ["nbval-skip"]}
        ),
    ]
    notebook = new_notebook(cells=cells, metadata=METADATA)
    nbformat.write(notebook, folder / f"{name}.ipynb")
    (folder / f"{name}.md").write_text(twins.text_of(notebook), "utf-8")
    return folder / name


def change(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize("stem", twins.stems(), ids=lambda stem: f"{stem.parent.name}-{stem.name}")
def test_pair_of_the_course(stem):
    assert not (findings := twins.differences(stem)), "\n".join(findings)


def test_equal_twins(tmp_path):
    write_pair(tmp_path)
    assert twins.check([tmp_path]) == (1, [])


@pytest.mark.parametrize(
    ("suffix", "old", "new"),
    [
        (".md", "three", "theee"),
        (".ipynb", "three", "theee"),
        (".md", "Why is", "Why was"),
        (".md", "nbval-skip", "nbval-skim"),
        (".md", "print(1 + 2)", "print(1 +  2)"),
        (".ipynb", "Python 3 (ipykernel)", "Python 3"),
    ],
)
def test_one_change_on_either_side_is_found(tmp_path, suffix, old, new):
    stem = write_pair(tmp_path)
    change(stem.with_suffix(suffix), old, new)
    count, findings = twins.check([tmp_path])
    assert count == len(findings) == 1
    assert "02_sample.md and 02_sample.ipynb differ" in findings[0]
    assert new.split()[-1] in findings[0]


def test_a_missing_cell_is_found(tmp_path):
    stem = write_pair(tmp_path)
    notebook = nbformat.read(stem.with_suffix(".ipynb"), as_version=4)
    del notebook.cells[1]
    nbformat.write(notebook, stem.with_suffix(".ipynb"))
    assert len(twins.check([tmp_path])[1]) == 1


@pytest.mark.parametrize("missing", [".md", ".ipynb"])
def test_a_missing_twin_is_found_on_either_side(tmp_path, missing):
    write_pair(tmp_path, "02_whole")
    write_pair(tmp_path, "03_half").with_suffix(missing).unlink()
    count, findings = twins.check([tmp_path])
    assert count == 2
    assert len(findings) == 1
    assert f"03_half{missing} is missing" in findings[0]


@pytest.mark.parametrize("newer", [".md", ".ipynb"])
@pytest.mark.parametrize("differ", [False, True], ids=["equal", "different"])
def test_time_stamps_change_nothing(tmp_path, newer, differ):
    stem = write_pair(tmp_path)
    if differ:
        change(stem.with_suffix(".md"), "three", "theee")
    text, notebook = stem.with_suffix(".md").read_bytes(), stem.with_suffix(".ipynb").read_bytes()
    os.utime(stem.with_suffix(newer), (2_000_000_000, 2_000_000_000))
    assert len(twins.check([tmp_path])[1]) == differ
    assert (stem.with_suffix(".md").read_bytes(), stem.with_suffix(".ipynb").read_bytes()) == (text, notebook)


def test_versions_of_jupytext_are_not_compared(tmp_path):
    stem = write_pair(tmp_path)
    change(stem.with_suffix(".md"), "jupytext_version: ", "jupytext_version: 9.")
    assert twins.check([tmp_path])[1] == []


def test_other_markdown_and_checkpoints_are_not_twins(tmp_path):
    write_pair(tmp_path)
    (tmp_path / "README.md").write_text("# Read me\n\n---\njupytext: is mentioned\n", "utf-8")
    (tmp_path / "rule.md").write_text("---\ntitle: a page\n---\n\njupytext: in the text\n", "utf-8")
    hidden = tmp_path / ".ipynb_checkpoints"
    hidden.mkdir()
    shutil.copy(tmp_path / "02_sample.ipynb", hidden / "02_sample-checkpoint.ipynb")
    assert twins.check([tmp_path]) == (1, [])


def test_a_cell_that_the_text_cannot_hold_is_found(tmp_path):
    stem = write_pair(tmp_path)
    notebook = nbformat.read(stem.with_suffix(".ipynb"), as_version=4)
    notebook.cells[0].source += "\n\n+++\n\nmore"
    nbformat.write(notebook, stem.with_suffix(".ipynb"))
    stem.with_suffix(".md").write_text(twins.text_of(notebook), "utf-8")  # equal as text, and yet not the same cells
    findings = twins.check([tmp_path])[1]
    assert len(findings) == 1
    assert "cell 0" in findings[0]
    assert "+++" in findings[0]


def test_a_chapter_is_named_in_any_of_four_ways(tmp_path):
    folder = tmp_path / "chapters"
    folder.mkdir()
    stem = write_pair(folder)
    for name in (folder, stem.with_suffix(".md"), stem.with_suffix(".ipynb"), stem, "02_sample"):
        assert twins.stems([name], root=tmp_path) == [stem]
    assert twins.stems(root=tmp_path) == [stem]
    with pytest.raises(FileNotFoundError, match=r"no notebook and no text twin at .*04_none"):
        twins.stems(["04_none"], root=tmp_path)


def test_command_says_what_it_found(tmp_path, capsys):
    stem = write_pair(tmp_path)
    assert twins.main([str(tmp_path)]) == 0
    assert "1 chapters looked at, 0 findings" in capsys.readouterr().out
    change(stem.with_suffix(".md"), "three", "theee")
    assert twins.main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "-print(1 + 2)  # theee" in printed
    assert "+print(1 + 2)  # three" in printed


def test_a_long_difference_is_cut(tmp_path):
    stem = write_pair(tmp_path)
    notebook = nbformat.read(stem.with_suffix(".ipynb"), as_version=4)
    notebook.cells += [new_code_cell(f"print({number})") for number in range(99)]
    nbformat.write(notebook, stem.with_suffix(".ipynb"))
    finding = twins.check([tmp_path])[1][0]
    assert len(finding.splitlines()) == twins.DIFF_LINES + 2
    assert finding.endswith("lines more")
