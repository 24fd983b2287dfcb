"""Make exercises/ from solutions/: nbgrader takes the answers out, and nothing is written unless nothing leaks.

    python -m tools.book.exercises [--check] [set of exercises ...]

All sets are made where none is named, and what has no solution any more is removed. Each file is written whole, and
files are removed last: a run that is stopped leaves notebooks that work, and the next one does the rest. A second run
changes no byte.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.book import twins
from tools.files import write_whole

ROOT = twins.ROOT
SOLUTIONS, EXERCISES = "solutions", "exercises"
BEGIN, END = "BEGIN SOLUTION", "END SOLUTION"
FORBIDDEN = (BEGIN, END, "HIDDEN TESTS", "MARK SCHEME")  # what nbgrader's regions are called
LONG_LINE = 40  # characters of a written answer that do not stand elsewhere by chance


class ReleaseError(Exception):
    """A set of exercises cannot be released; the message says which and why."""


def names(root: Path = ROOT) -> list[str]:
    """The sets of exercises that have solutions."""
    return sorted(path.parent.name for path in (root / SOLUTIONS).glob("*/*.ipynb") if path.stem == path.parent.name)


def generate(name: str, root: Path = ROOT) -> str:
    """The text of the notebook that students get, from solutions/NAME/NAME.ipynb; ReleaseError where it would leak."""
    stem = root / SOLUTIONS / name / name
    if not stem.with_suffix(".ipynb").is_file():
        known = ", ".join(names(root)) or "none"
        raise ReleaseError(f"{name}: there is no {SOLUTIONS}/{name}/{name}.ipynb; there are: {known}")
    if twins.differences(stem):
        raise ReleaseError(
            f"{name}: the text and the notebook differ: run `python -m tools.book.outputs {SOLUTIONS}/{name}`"
        )
    solution = nbformat.read(stem.with_suffix(".ipynb"), as_version=4)
    released = tidy(_by_nbgrader(stem, root))
    if found := leaks(released, solution):
        raise ReleaseError("\n  ".join([f"{name}:", *found]))
    return nbformat.writes(released) + "\n"


def _by_nbgrader(stem: Path, root: Path) -> NotebookNode:
    """nbgrader's own release of one notebook, made in a course of its own that holds nothing else."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.preprocessors import SaveCells
    from traitlets.config import PyFileConfigLoader

    with tempfile.TemporaryDirectory() as course:
        folder = Path(course) / SOLUTIONS / stem.name
        folder.mkdir(parents=True)
        shutil.copy(stem.with_suffix(".ipynb"), folder)
        config = PyFileConfigLoader("nbgrader_config.py", str(root)).load_config()
        config.CourseDirectory.root = course
        config.CourseDirectory.assignment_id = stem.name
        config.GenerateAssignment.no_database = True
        log = _Log()
        converter = GenerateAssignment(coursedir=CourseDirectory(config=config, log=log), config=config, log=log)
        converter.preprocessors.remove(SaveCells)  # it alone needs the gradebook, which takes seconds to make
        try:
            converter.start()
        except NbGraderException as error:
            raise ReleaseError("\n".join([f"{stem.name}: nbgrader refuses it:", *log.lines])) from error
        return nbformat.read(Path(course) / EXERCISES / stem.name / f"{stem.name}.ipynb", as_version=4)


class _Log(logging.Logger):
    """Keeps what nbgrader complains of."""

    def __init__(self) -> None:
        super().__init__("nbgrader", logging.ERROR)
        self.lines: list[str] = []

    def handle(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def tidy(notebook: NotebookNode) -> NotebookNode:
    """Take out what a solution leaves beside its outputs: widgets, and ids that are made from the text of an answer."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            cell.id = cell.metadata.nbgrader.grade_id
    return notebook


def leaks(released: NotebookNode, solution: NotebookNode) -> list[str]:
    """What a released notebook tells that it must not, or does not pass on; empty where it is fit for students."""
    found = []
    if len(released.cells) != len(solution.cells):
        return [f"{len(solution.cells)} cells became {len(released.cells)}"]
    text = nbformat.writes(released)
    found += [f"the words {word} are left in it" for word in FORBIDDEN if word in text]
    found += ["it carries widgets"] if "widgets" in released.metadata else []
    sources = [_squeezed(cell.source) for cell in released.cells]
    for number, (cell, original) in enumerate(zip(released.cells, solution.cells, strict=True)):
        marks = original.metadata.get("nbgrader", {})
        answer = marks.get("solution", False)
        if cell.get("outputs") or cell.get("execution_count") or cell.get("attachments"):
            found.append(f"cell {number} carries an output")
        if not answer and cell.source != original.source:
            found.append(f"cell {number}, which holds no answer, was changed")
        if not answer:
            continue
        parts = secrets(original)
        if not parts:
            found.append(f"cell {number} ({marks.grade_id}) is an answer without a region {BEGIN} … {END}")
        if any(part in source for part in parts for source in sources):
            found.append(f"the answer of cell {number} ({marks.grade_id}) stands in the released text")
    return found


def secrets(cell: NotebookNode) -> list[str]:
    """What must not stand in the released text: each region of code as a whole, and each long line of a written answer.

    Single lines of code may stand elsewhere: in a task to find a bug, most of a program is given.
    """
    parts = [_squeezed(region) for region in regions(cell.source)]
    if cell.cell_type == "markdown":
        parts = [line for part in parts for line in part.splitlines() if len(line) >= LONG_LINE]
    return [part for part in parts if part]


def regions(source: str) -> list[str]:
    """The texts between BEGIN SOLUTION and END SOLUTION."""
    found: list[list[str]] = []
    inside = False
    for line in source.splitlines():
        if BEGIN in line or END in line:
            inside = BEGIN in line
            found += [[]] if inside else []
        elif inside:
            found[-1].append(line)
    return ["\n".join(lines) for lines in found]


def _squeezed(text: str) -> str:
    """Without comments, indentation and blank lines: an answer in other clothes is the same answer."""
    lines = (line.partition("  #")[0].strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def write(texts: dict[str, str], root: Path = ROOT, *, complete: bool) -> list[str]:
    """Put the notebooks into exercises/; returns the names of the sets that changed.

    With `complete` nothing else stays there; otherwise the other sets stay as they are.
    """
    target = root / EXERCISES
    after = {f"{name}/{name}.ipynb": text.encode() for name, text in texts.items()}
    stale = sorted(contents(target).keys() - after.keys()) if complete else []
    changed = [path for path, data in after.items() if write_whole(target / path, data)]
    for path in stale:
        (target / path).unlink()
    folders = [path for path in target.rglob("*") if path.is_dir()] if complete else []
    for folder in sorted(folders, reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
    return sorted({path.partition("/")[0] for path in [*changed, *stale]})


def contents(folder: Path) -> dict[str, bytes]:
    """{path: bytes} of everything in exercises/ but what notebook servers leave there."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths if ".ipynb_checkpoints" not in p.parts}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.book.exercises", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with exercises/, write nothing")
    parser.add_argument("names", nargs="*", help="sets of exercises, as their folders are called (default: all)")
    options = parser.parse_args(arguments)
    wanted = [Path(name).name for name in options.names] or names(root)
    try:
        texts = {name: generate(name, root) for name in wanted}
    except ReleaseError as error:
        print(f"{error}\nnothing written", file=sys.stderr)
        return 1
    if options.check:
        have = contents(root / EXERCISES)
        want = {f"{name}/{name}.ipynb": text.encode() for name, text in texts.items()}
        paths = want.keys() if options.names else want.keys() | have.keys()
        stale = sorted(path for path in paths if have.get(path) != want.get(path))
        remedy = "is not what its solution gives: run `python -m tools.book.exercises`"
        print("\n".join(f"{path} {remedy}" for path in stale))
        return 1 if stale else 0
    changed = write(texts, root, complete=not options.names)
    for name in sorted({*wanted, *changed}):
        print(f"{name}: {'no change' if name not in changed else 'wrote it' if name in texts else 'removed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
