"""Grades the submissions of a class: side by side, each once, the gradebook written by one thread."""

from __future__ import annotations

import functools
import hashlib
import json
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from tools.files import write_whole
from tools.grading import gradebook, judge, rebuild, sandbox, session, steps
from tools.grading.assignment import Assignment, GradingError, Places, is_answer, is_test
from tools.grading.gradebook import Book
from tools.grading.sandbox import Limits


@dataclass
class Record:
    """What is kept of one student's grading, for the teacher: marks, and what was odd."""

    student: str
    digest: str = ""
    score: float = 0.0
    of: float = 0.0
    by_hand: bool = False  # something waits for a person
    exercises: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None  # why it could not be graded
    seconds: float = 0.0


@dataclass(frozen=True)
class Worked:
    """One submission, run and judged, not yet in the gradebook."""

    record: Record
    notebook: NotebookNode | None


class Classroom:
    """One assignment of one course, ready to grade. Use it in a `with`."""

    def __init__(self, places: Places, assignment: Assignment, library: Path, limits: Limits, *, unsafe: bool) -> None:
        self.places, self.assignment, self.limits, self.unsafe = places, assignment, limits, unsafe
        self.library, self.secret = library, places.secret()
        self.settings = assignment.digest(library, self.secret)
        self.stop = threading.Event()

    def __enter__(self) -> Classroom:
        self.folder = tempfile.TemporaryDirectory(prefix="grading-", ignore_cleanup_errors=True)
        try:
            self.course = Path(self.folder.name) / "course"
            Path(self.folder.name).chmod(0o755)
            sandbox.prepare(self.course, self.library, self.assignment.other_files())
            if not self.unsafe:
                sandbox.check(self.course, self.places.hidden(), self.limits)
            self.book = Book(self.places, self.assignment)
        except BaseException:
            self.folder.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()

    @functools.cached_property
    def inputs(self) -> dict[str, bytes]:
        """What the answers to each exercise are applied to."""
        return judge.inputs([check.exercise for check in self.assignment.checks.values()], self.secret)

    # ------------------------------------------------------------------------------------------ who, and what is new

    def students(self) -> list[str]:
        """Everybody with a folder for this assignment."""
        name = self.assignment.name
        return sorted(path.parent.name for path in self.places.submitted.glob(f"*/{name}") if path.is_dir())

    def record_path(self, student: str) -> Path:
        return self.places.records / self.assignment.name / f"{student}.json"

    def graded_before(self, student: str, digest: str) -> Record | None:
        """The record of these very bytes, marked by these very rules; None where there is none."""
        try:
            record = Record(**json.loads(self.record_path(student).read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return record if record.digest == digest and self.book.knows(student) else None

    def find(self, student: str) -> Path:
        """The notebook that a student handed in: the one of the right name, or the only one there is."""
        folder = self.places.submitted / student / self.assignment.name
        exact = folder / self.assignment.path.name
        found = sorted(path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
        if exact in found:
            return exact
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "no notebook"
            raise rebuild.Unreadable(f"found {names}; name the one that counts {exact.name}")
        return found[0]

    # ------------------------------------------------------------------------------------------------------- grading

    def grade(self, students: list[str], jobs: int, again: bool, done: Callable[[Record, bool], None]) -> list[Record]:
        """Grade students side by side; `done(record, new)` is told of each as it is finished."""
        records: list[Record] = []
        slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(jobs):
            slots.put(slot)
        with ThreadPoolExecutor(jobs) as pool:
            waiting: set[Future[Worked]] = set()
            try:
                for student in students:
                    data, problem = self._read(student)
                    digest = hashlib.sha256(data + problem.encode() + self.settings.encode()).hexdigest()
                    before = None if again or problem else self.graded_before(student, digest)
                    if before:
                        records.append(before)
                        done(before, False)
                    elif problem:
                        records.append(self._finish(Worked(Record(student, digest, problem=problem), None)))
                        done(records[-1], True)
                    elif self.inputs:  # made here, once, before anybody needs them
                        waiting.add(pool.submit(self._work, student, digest, data, slots))
                for worked in _as_they_finish(waiting):
                    records.append(self._finish(worked))
                    done(records[-1], True)
            except BaseException:
                self.stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return sorted(records, key=lambda record: record.student)

    def _read(self, student: str) -> tuple[bytes, str]:
        """The bytes that a student handed in, or why there are none."""
        try:
            return rebuild.read(self.find(student)), ""
        except rebuild.Unreadable as error:
            return b"", str(error)

    def _work(self, student: str, digest: str, data: bytes, slots: queue.SimpleQueue[int]) -> Worked:
        slot, began = slots.get(), time.monotonic()
        record = Record(student, digest)
        try:
            rebuilt = rebuild.rebuild(self.assignment, rebuild.cells_of(data))
            ran = self._run(rebuilt.notebook, slot)
            marks = self._judge(ran)
            record.exercises = {mark.exercise: {"passed": mark.passed, "finding": mark.finding} for mark in marks}
            record.notes = [*rebuilt.notes, *_what_stopped(ran)]
            return Worked(record, gradebook.marked(rebuilt.notebook, ran.outputs, ran.stopped, marks))
        except (rebuild.Unreadable, GradingError, OSError) as error:
            record.problem = str(error)
            return Worked(record, None)
        finally:
            record.seconds = round(time.monotonic() - began, 1)
            slots.put(slot)

    def _run(self, notebook: NotebookNode, slot: int) -> steps.Ran:
        checks = iter(self.assignment.checks.values())
        todo: list[steps.Step] = []
        for place, cell in enumerate(notebook.cells):
            if is_test(cell):
                check = next(checks)
                todo.append(steps.Question(check.exercise, check.answer, self.inputs[check.exercise]))
            elif cell.cell_type == "code" and not (is_answer(cell) and not cell.source.strip()):
                todo.append(steps.Cell(place, cell.source))
        hidden = self.places.hidden()
        return session.run(todo, self.course, hidden, self.limits, unsafe=self.unsafe, slot=slot, stop=self.stop)

    def _judge(self, ran: steps.Ran) -> list[judge.Mark]:
        stopped = {exercise: why for exercise, why in ran.stopped.items() if isinstance(exercise, str)}
        marks = {mark.exercise: mark for mark in judge.judge(ran.results, stopped, self.secret)}
        return [marks[check.exercise] for check in self.assignment.checks.values()]

    def _finish(self, worked: Worked) -> Record:
        """Enter a submission into the gradebook and keep its record."""
        record = worked.record
        if worked.notebook is not None:
            saved = self.book.save(record.student, worked.notebook, self._timestamp(record.student))
            record.score, record.of, record.by_hand = saved["score"], saved["of"], saved["by_hand"]
        text = json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n"
        write_whole(self.record_path(record.student), text.encode())
        return record

    def _timestamp(self, student: str) -> str | None:
        """When it was handed in, as nbgrader's timestamp.txt says it."""
        path = self.places.submitted / student / self.assignment.name / "timestamp.txt"
        return path.read_text("utf-8").strip() or None if path.is_file() and not path.is_symlink() else None


def _what_stopped(ran: steps.Ran) -> list[str]:
    """For the teacher: cells and exercises that were stopped, or that had to be tried twice."""
    where = {place: f"cell {place + 1}" if isinstance(place, int) else f"{place}:" for place in ran.stopped}
    twice = [f"{name}: {why}, then ran without the cells below it" for name, why in ran.again.items()]
    return [*(f"{where[place]} {why}" for place, why in ran.stopped.items()), *twice]


def _as_they_finish(waiting: set[Future[Worked]]) -> Iterator[Worked]:
    while waiting:
        finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in finished:
            yield future.result()


def table(records: list[Record]) -> str:
    """What the teacher reads at the end: one line for each student, notes under it."""
    width = max([7, *(len(record.student) for record in records)])
    lines = [f"{'student':{width}}  {'points':>9}  exercises"]
    for record in records:
        if record.problem:
            lines.append(f"{record.student:{width}}  not graded: {record.problem}")
            continue
        marks = " ".join(
            f"{'✓' if mark['passed'] else '✗'}{exercise.partition('.')[2]}"
            for exercise, mark in record.exercises.items()
        )
        rest = "  (+ by hand)" if record.by_hand else ""
        lines.append(f"{record.student:{width}}  {record.score:4.1f}/{record.of:4.1f}  {marks}{rest}")
        lines += [f"{'':{width}}    {note}" for note in record.notes]
    return "\n".join(lines)


def refuse_unknown(students: list[str], wanted: str, assignment: str) -> list[str]:
    """`wanted` as a list; GradingError where this student handed in nothing."""
    if wanted not in students:
        raise GradingError(f"{wanted!r} handed in no {assignment!r}. Handed in by: {', '.join(students) or 'nobody'}")
    return [wanted]
