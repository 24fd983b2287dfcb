"""Marks in nbgrader's own gradebook, through its own code, so that Formgrader, feedback and export know them."""

from __future__ import annotations

import copy
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output

from tools.files import write_whole
from tools.grading.assignment import Assignment, GradingError, Places, is_test, tag
from tools.grading.judge import Mark

MAX_MESSAGE = 2000


class Book:
    """The gradebook of a course, for one assignment. Use it from one thread."""

    def __init__(self, places: Places, assignment: Assignment) -> None:
        self.places, self.assignment = places, assignment
        places.grading.mkdir(parents=True, exist_ok=True)
        self.url = f"sqlite:///{places.gradebook}"
        self.notebook_id = assignment.path.stem
        self.settings = _settings(places.root)
        here = str(Path(sys.executable).parent)  # nbgrader starts `alembic`, also where no environment is active
        if here not in os.environ["PATH"].split(os.pathsep):
            os.environ["PATH"] = here + os.pathsep + os.environ["PATH"]
        self.register()

    def open(self) -> Any:
        from nbgrader.api import Gradebook

        return Gradebook(self.url, self.settings.CourseDirectory.get("course_id", "default_course"))

    def _resources(self, student: str = "") -> dict[str, Any]:
        ids = {"notebook": self.notebook_id, "assignment": self.assignment.name, "student": student}
        return {"nbgrader": {**ids, "db_url": self.url}}

    def register(self) -> None:
        """Make the assignment and its cells known, or find them as they are."""
        from nbgrader.preprocessors import SaveCells

        with self.open() as book:
            book.update_or_create_assignment(self.assignment.name)
        try:
            SaveCells(config=self.settings).preprocess(copy.deepcopy(self.assignment.notebook), self._resources())
        except RuntimeError as error:
            raise GradingError(
                f"{error}. {self.assignment.name} was released again with other cells after submissions were marked: "
                "release the changed exercises under another name"
            ) from None

    def knows(self, student: str) -> bool:
        """Whether marks of this student are there."""
        from nbgrader.api import MissingEntry

        with self.open() as book:
            try:
                book.find_submission(self.assignment.name, student)
            except MissingEntry:
                return False
        return self.path(student).is_file()

    def path(self, student: str) -> Path:
        """Where the marked notebook of a student lies."""
        return self.places.autograded / student / self.assignment.name / self.assignment.path.name

    def save(self, student: str, notebook: NotebookNode, timestamp: str | None) -> dict[str, Any]:
        """Write the marked notebook and enter its marks; manual marks stay. Returns what the gradebook now says."""
        from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades

        write_whole(self.path(student), nbformat.writes(notebook).encode())
        given = {"timestamp": timestamp} if timestamp else {}
        with self.open() as book, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nbgrader adds objects in an order that SQLAlchemy remarks upon
            book.update_or_create_student(student)
            book.update_or_create_submission(self.assignment.name, student, **given)
        for step in (SaveAutoGrades, AssignLatePenalties):
            step(config=self.settings).preprocess(copy.deepcopy(notebook), self._resources(student))
        with self.open() as book:
            submission = book.find_submission(self.assignment.name, student)
            return {
                "score": submission.score,
                "of": submission.max_score,
                "by_hand": bool(submission.needs_manual_grade),
            }


def marked(
    notebook: NotebookNode, outputs: dict[int, list], stopped: dict[int | str, str], marks: list[Mark]
) -> NotebookNode:
    """The notebook with what its cells showed, and in each cell that checks an exercise the report on it.

    nbgrader reads the marks from these cells: an error in the output is none of the points, anything else is all.
    """
    notebook, left = copy.deepcopy(notebook), list(marks)
    count = 0
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        if is_test(cell):
            cell.outputs = _report(left.pop(0))
            continue
        cell.outputs = nbformat.from_dict(outputs.get(place, []))
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
        if place in stopped:
            cell.outputs.append(_error("Stopped", f"This cell {stopped[place]}. The other cells were run without it."))
    return notebook


def _report(mark: Mark) -> list[NotebookNode]:
    outputs = [new_output("stream", name="stdout", text=mark.text + "\n")]
    return outputs if mark.passed else [*outputs, _error("NotYet", "no points for this exercise yet")]


def _error(name: str, text: str) -> NotebookNode:
    return new_output("error", ename=name, evalue=text[:MAX_MESSAGE], traceback=[f"{name}: {text}"[:MAX_MESSAGE]])


def points(notebook: NotebookNode) -> float:
    """What the exercises that are judged here are worth together."""
    return sum(float(tag(cell).points) for cell in notebook.cells if is_test(cell))


def _settings(root: Path) -> Any:
    """nbgrader's settings for this course: its id, and how lateness is counted."""
    from traitlets.config import Config, PyFileConfigLoader

    if not (root / "nbgrader_config.py").is_file():
        return Config()
    return PyFileConfigLoader("nbgrader_config.py", str(root)).load_config()
