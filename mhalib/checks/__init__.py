"""Instant feedback on the exercises: `checks.check("02.attend", attend)`.

The definitions are in `chapter_NN/`, found by the number that an exercise's id begins with; one file an exercise.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from mhalib.checks import encode
from mhalib.checks.data import Case, Outcome
from mhalib.checks.exercise import Evidence, Exercise, Finding, Property, Report
from mhalib.checks.run import run

__all__ = [
    "VISIBLE_SEED",
    "Case",
    "Evidence",
    "Exercise",
    "Finding",
    "NotYet",
    "Outcome",
    "Property",
    "Report",
    "all",
    "check",
    "encode",
    "get",
    "run",
]

#: The inputs that the notebook shows; grading adds others.
VISIBLE_SEED = 0


class NotYet(Exception):
    """An answer is not right yet; the message is the whole report."""

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows in the place of a traceback: the report stands above it already."""
        return ["Not yet. Change your answer, run its cell, and run this cell again."]


def get(id: str) -> Exercise:
    """The exercise called `id`, for example "02.attend"."""
    if not isinstance(id, str):
        raise TypeError(f"id: got {type(id).__name__}; accepted is the name of an exercise, such as '02.attend'")
    known = _chapter(id.partition(".")[0])
    if id not in known:
        names = ", ".join(known or map(str, _numbers()))
        raise ValueError(f"id: got {id!r}; accepted are {names}" + ("" if known else ", a point, and a name"))
    return known[id]


def all() -> list[Exercise]:
    """Every exercise of the course, in the order of the chapters."""
    return [exercise for number in _numbers() for exercise in _chapter(number).values()]


def check(id: str, answer: object) -> None:
    """Try an answer: print a line for each property, and a hint. Raises NotYet where it is not right yet."""
    exercise = get(id)
    cases = exercise.cases(VISIBLE_SEED)
    report = exercise.judge(cases, run(answer, cases))
    print(report)
    if not report.passed:
        raise NotYet(str(report))


def _numbers() -> list[str]:
    found = Path(__file__).parent.glob("chapter_*/__init__.py")
    return sorted(path.parent.name.removeprefix("chapter_") for path in found)


def _chapter(number: str) -> dict[str, Exercise]:
    if number not in _numbers():
        return {}
    module = importlib.import_module(f"mhalib.checks.chapter_{number}")
    return {exercise.id: exercise for exercise in module.EXERCISES}
