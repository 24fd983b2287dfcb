"""Grade what a class handed in: `grading/submitted/STUDENT/ASSIGNMENT/NOTEBOOK.ipynb`.

    python -m tools.grading ASSIGNMENT [--student S] [--jobs N] [--again] [--unsafe] [--collect DOWNLOAD]

Each submission is rebuilt on the released notebook, run shut in (bubblewrap, Linux), and judged outside. Marks and
reports go where nbgrader keeps them: grading/gradebook.db and grading/autograded. Run it as often as you like: what was
graded already, the same bytes by the same rules, is not run again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.grading.assignment import GradingError, Places, load
from tools.grading.sandbox import Limits, Unavailable

ROOT = Path(__file__).resolve().parents[2]
UNSAFE = (
    "Without it a submission runs with all your rights: it can read answers and marks, delete files and use the "
    "network. `--unsafe` does that; use it only on a machine, or in a container, that holds nothing else."
)


def arguments_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.grading", description=__doc__.split("\n")[0])
    parser.add_argument("assignment", help="the folder in exercises/, for example 02_single_head")
    parser.add_argument("--student", help="grade this student only")
    parser.add_argument("--jobs", type=int, help="submissions side by side (default: one for each core)")
    parser.add_argument("--again", action="store_true", help="run what was graded already, too")
    parser.add_argument("--unsafe", action="store_true", help="do not shut submissions in")
    parser.add_argument("--collect", metavar="DOWNLOAD", help="first sort this folder or zip of an LMS into submitted/")
    parser.add_argument("--root", type=Path, default=ROOT, help="the course's folder (default: this clone)")
    options = parser.parse_args(arguments)
    if options.jobs is not None and options.jobs < 1:
        parser.error(f"--jobs: got {options.jobs}; accepted is 1 or more")
    return options


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def grade(options: argparse.Namespace, limits: Limits | None = None) -> int:
    """Grade and print the table. Returns 1 where a submission could not be graded."""
    from tqdm import tqdm

    from tools.grading import classroom, collect

    places = Places(options.root.resolve())
    assignment = load(places, options.assignment)
    if options.collect:
        print(collect.collect(Path(options.collect), places, assignment))
    room = classroom.Classroom(places, assignment, ROOT / "mhalib", limits or Limits(), unsafe=options.unsafe)
    students = room.students()
    if options.student is not None:
        students = classroom.refuse_unknown(students, options.student, assignment.name)
    if not students:
        raise GradingError(
            f"nobody handed in {assignment.name}: looked for {places.submitted}/STUDENT/{assignment.name}"
        )
    new = 0
    with room, tqdm(total=len(students), unit="student", disable=None) as bar:

        def done(record: classroom.Record, run: bool) -> None:
            nonlocal new
            new += run
            bar.set_postfix_str(record.student, refresh=False)
            bar.update()

        records = room.grade(students, options.jobs or cores(), options.again, done)
    print(classroom.table(records))
    print(f"{len(records)} submissions, {new} graded now, {len(records) - new} as they were")
    return 1 if any(record.problem for record in records) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    options = arguments_of(arguments)
    try:
        return grade(options)
    except Unavailable as error:
        print(f"{error}\n{UNSAFE}", file=sys.stderr)
    except GradingError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped: what was graded is kept, and the same command goes on from there", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
