"""Marks what the answers computed, in a clean process per submission that never runs a line of a student's.

An exercise is passed where its definition passes it on the inputs that the notebook shows and on others, the same
ones for everybody. What is told of the others names no input and nothing that an answer returned.
"""

from __future__ import annotations

import builtins
import hashlib
import itertools
import multiprocessing
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tools.grading.assignment import GradingError

MIB = 1 << 20
SETS = 3  # of inputs that the notebook does not show
SECONDS = 120  # for all exercises of one submission
MEMORY = 4096 * MIB


@dataclass(frozen=True)
class Mark:
    """One exercise of one submission."""

    exercise: str
    passed: bool
    text: str  # the report, for the student
    finding: str | None = None  # the mistake that was recognised


class JudgeFailed(GradingError):
    """The process that judges ended without a judgement."""


def seeds(exercise: str, secret: str) -> list[int]:
    """The seeds of the inputs that grading adds: the same for all who are graded with this secret."""
    words = (f"{secret} {exercise} {n}".encode() for n in range(SETS))
    return [int.from_bytes(hashlib.sha256(word).digest()[:4], "little") for word in words]


def processes() -> Any:
    """Where processes come from: of one that has imported torch already, where the system can fork."""
    fork = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if fork else "spawn")
    if fork:
        context.set_forkserver_preload(["__main__", "torch", "mhalib.checks"])
    return context


def inputs(exercises: list[str], secret: str) -> dict[str, bytes]:
    """For each exercise all its cases, encoded: what a submission's answers are applied to."""
    return _in_process(_inputs, exercises, secret)


def judge(results: Mapping[str, bytes], stopped: Mapping[str, str], secret: str) -> list[Mark]:
    """Marks for the exercises in `results` (encoded outcomes), and for those in `stopped` (the reason)."""
    marks = [Mark(**row) for row in _in_process(_judge, dict(results), secret)] if results else []
    for exercise, reason in stopped.items():
        marks.append(Mark(exercise, False, f"{exercise}  ✗ your code {reason}"))
    return marks


def _in_process(work: Any, *arguments: Any) -> Any:
    context = processes()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(work, arguments, there))
    process.start()
    there.close()
    try:
        if not here.poll(SECONDS):
            raise JudgeFailed(f"judging took more than {SECONDS} s")
        result = here.recv()  # from our own code: the student's bytes were only decoded there
    except EOFError:
        raise JudgeFailed("the process that judges ended") from None
    finally:
        process.kill()
        process.join()
        here.close()
    if isinstance(result, Exception):
        raise result
    return result


def _report(work: Any, arguments: tuple, pipe: Any) -> None:
    try:
        pipe.send(work(*arguments))
    except Exception as error:
        pipe.send(JudgeFailed(f"{type(error).__name__}: {error}"))


def _cases(exercise: Any, secret: str) -> list[list[Any]]:
    from mhalib import checks

    return [exercise.cases(seed) for seed in (checks.VISIBLE_SEED, *seeds(exercise.id, secret))]


def _inputs(exercises: list[str], secret: str) -> dict[str, bytes]:
    from mhalib import checks
    from mhalib.checks.encode import encode_cases

    known = [checks.get(exercise) for exercise in exercises]
    return {exercise.id: encode_cases(list(itertools.chain(*_cases(exercise, secret)))) for exercise in known}


def _judge(results: dict[str, bytes], secret: str) -> list[dict[str, Any]]:
    import torch

    from mhalib import checks

    _limit_memory()
    torch.set_num_threads(1)
    return [asdict(_mark(checks.get(exercise), data, secret)) for exercise, data in results.items()]


def _limit_memory() -> None:
    """An answer may return a matrix that is small and whose square is not: that ends in an error here, not there."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def _mark(exercise: Any, data: bytes, secret: str) -> Mark:
    from mhalib.checks.encode import decode

    sets = _cases(exercise, secret)
    try:
        outcomes = decode(data)
        if len(outcomes) != sum(map(len, sets)):
            raise ValueError
    except ValueError:
        return Mark(exercise.id, False, f"{exercise.id}  ✗ your code interfered with its own grading")
    finding = None
    for place, cases in enumerate(sets):
        mine, outcomes = outcomes[: len(cases)], outcomes[len(cases) :]
        report = exercise.judge(cases, mine)
        if not report.passed:
            text = str(report) if place == 0 else _without_inputs(exercise, report, mine)
            return Mark(exercise.id, False, text, report.finding)
    return Mark(exercise.id, True, str(report), finding)


def _without_inputs(exercise: Any, report: Any, outcomes: list[Any]) -> str:
    """What failed on other inputs: names of properties, kinds of errors, the hint. Nothing that an answer chose."""
    lines = [f"{exercise.id}  ✓ right on the inputs that the notebook tries", "✗ not on other inputs of the same kind:"]
    if len(report.lines) == 1 + len(exercise.properties):
        failed = zip(exercise.properties, report.lines[1:], strict=True)
        lines += [f"✗ {prop.name}" for prop, (ok, _) in failed if not ok]
    else:
        lines.append(f"✗ stopped with {_kind(next((o.error for o in outcomes if o.error), ''))}")
    if report.hint:
        lines.append(f"Hint: {report.hint}")
    return ("\n" + " " * (len(exercise.id) + 2)).join(lines)


def _kind(error: str) -> str:
    name = error.partition(":")[0]
    known = getattr(builtins, name, None)
    return name if isinstance(known, type) and issubclass(known, BaseException) else "an error"
