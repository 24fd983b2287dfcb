"""Places of a course, and what an assignment asks: the released notebook and the exercises that it checks."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode


class GradingError(Exception):
    """Nothing can be graded; the message says why and what to do."""


@dataclass(frozen=True)
class Places:
    """Where nbgrader keeps things, as nbgrader_config.py says it."""

    root: Path

    @property
    def exercises(self) -> Path:
        return self.root / "exercises"

    @property
    def grading(self) -> Path:
        return self.root / "grading"

    @property
    def submitted(self) -> Path:
        return self.grading / "submitted"

    @property
    def autograded(self) -> Path:
        return self.grading / "autograded"

    @property
    def records(self) -> Path:
        return self.grading / "records"

    def secret(self) -> str:
        """What the inputs of grading follow from, beside the exercise: made once, kept with the marks."""
        path = self.grading / "secret"
        if not path.exists():
            self.grading.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError), open(path, "x", opener=_for_the_owner) as file:
                file.write(secrets.token_hex(16) + "\n")
        return path.read_text("utf-8").strip()

    @property
    def gradebook(self) -> Path:
        return self.grading / "gradebook.db"

    def hidden(self) -> list[Path]:
        """What no submission may see: the whole course, answers, definitions and marks with it."""
        return [self.root, self.grading.resolve()]


@dataclass(frozen=True)
class Check:
    """A locked cell that tries an exercise: `checks.check("02.attend", attend)`."""

    exercise: str
    answer: str


@dataclass(frozen=True)
class Assignment:
    """What was handed out under `name`."""

    name: str
    path: Path  # of the released notebook

    @functools.cached_property
    def notebook(self) -> NotebookNode:
        return nbformat.read(self.path, as_version=4)

    @functools.cached_property
    def checks(self) -> dict[int, Check]:
        """By place among the cells."""
        return {place: _check(cell) for place, cell in enumerate(self.notebook.cells) if is_test(cell)}

    def other_files(self) -> list[Path]:
        return sorted(path for path in self.path.parent.iterdir() if path.is_file() and path.suffix != ".ipynb")

    def digest(self, library: Path, secret: str) -> str:
        """Changes when anything does that marks could depend on."""
        sources = [*library.rglob("*.py"), *library.rglob("*.csv"), *Path(__file__).parent.glob("*.py")]
        total = hashlib.sha256(secret.encode())
        for path in [self.path, *self.other_files(), *sorted(sources)]:
            total.update(hashlib.sha256(path.read_bytes()).digest())
        return total.hexdigest()


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def load(places: Places, name: str) -> Assignment:
    """The released assignment called `name`; GradingError where there is none."""
    released = sorted(path.name for path in places.exercises.glob("*") if path.is_dir())
    if name not in released:
        known = ", ".join(released) or "none yet: `make exercises` makes them"
        raise GradingError(f"no assignment {name!r} was released. Released are {known}")
    found = sorted((places.exercises / name).glob("*.ipynb"))
    if len(found) != 1:
        raise GradingError(f"exercises/{name} holds {len(found)} notebooks; an assignment has one")
    assignment = Assignment(name, found[0])
    if not assignment.checks:
        raise GradingError(f"no cell of {found[0].name} checks an exercise")
    return assignment


def tag(cell: NotebookNode) -> NotebookNode:
    """nbgrader's metadata of a cell; empty where it has none."""
    return cell.metadata.get("nbgrader", NotebookNode())


def is_answer(cell: NotebookNode) -> bool:
    return bool(tag(cell).get("solution"))


def is_test(cell: NotebookNode) -> bool:
    """A locked code cell that is worth points."""
    return cell.cell_type == "code" and bool(tag(cell).get("grade")) and not is_answer(cell)


def _check(cell: NotebookNode) -> Check:
    calls = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)]
    for call in calls:
        named = isinstance(call.func, ast.Attribute) and call.func.attr == "check" and len(call.args) == 2
        if named and isinstance(call.args[0], ast.Constant) and isinstance(call.args[1], ast.Name):
            return Check(call.args[0].value, call.args[1].id)
    raise GradingError(
        f"the cell {tag(cell).get('grade_id')!r} is worth points and does not say which exercise it checks: "
        'write `checks.check("02.attend", attend)` in it'
    )
