"""Runs a rebuilt notebook in the sandbox and brings back what its cells showed and what its answers computed.

A cell that is stopped, or that ends its process, is left out and the rest is run again: it costs its own exercise
only. What the process says is data of a stranger: sizes are limited, and nothing in it is believed but its own loss.
"""

from __future__ import annotations

import functools
import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tools.grading import sandbox, shown, watch
from tools.grading.sandbox import Limits
from tools.grading.steps import Cell, Deadline, NotStarted, Question, Ran, Step

MAX_FRAME = 16 << 20
MAX_ALL = 64 << 20  # bytes of all frames together
MAX_RESULT = 64 << 20
TICK = 0.2
ENDED = "ended the process that ran it"
STILL_RUNNING = "was still running after {} s and was stopped"


NO_CELL = -1


class _Stop(Exception):
    """The process is not to go on, or it has ended; the message is for the student."""


def run(
    steps: Sequence[Step],
    course: Path,
    hidden: list[Path],
    limits: Limits,
    *,
    unsafe: bool,
    slot: int,
    stop: threading.Event,
) -> Ran:
    """Run all steps within the total time; cells that stop the process are left out and the others run again.

    An answer that came to nothing is tried once more without the cells below it: they may have been the cause.
    """
    deadline = Deadline(limits.total, stop)
    start = functools.partial(_Process, course=course, hidden=hidden, limits=limits, unsafe=unsafe, slot=slot)
    ran = _run(steps, {}, start, deadline)
    cells_stopped = {number: why for number, why in ran.stopped.items() if isinstance(number, int)}
    for place, step in enumerate(steps):
        below = any(isinstance(later, Cell) for later in steps[place + 1 :])
        if isinstance(step, Question) and step.id in ran.stopped and below and not deadline.passed():
            above = [each for each in steps[:place] if isinstance(each, Cell)]
            again = _run([*above, step], cells_stopped, start, deadline)
            if step.id in again.results:
                ran.results |= again.results
                ran.again[step.id] = ran.stopped.pop(step.id)
    return ran


def _run(steps: Sequence[Step], known: Mapping[int, str], start: Callable[..., _Process], deadline: Deadline) -> Ran:
    """Run the steps as often as it takes without the cells that stop the process; `known` are left out at once."""
    stopped: dict[int | str, str] = dict(known)
    while True:
        with start(steps, stopped, deadline=deadline) as process:
            culprit, reason = process.cells()
            ran = Ran(process.outputs, {}, stopped)
            if culprit is None:
                process.ask_all(ran)
                return ran
        if culprit == NO_CELL:  # no line of the student's has run
            raise NotStarted(f"the process that runs the notebook {reason} before its first cell: try again")
        if deadline.passed():
            stopped |= {step.id: reason for step in steps if isinstance(step, Question)}
            return ran
        stopped[culprit] = reason


class _Process:
    """One start of the sandbox, from the first cell to the last exercise."""

    def __init__(
        self,
        steps: Sequence[Step],
        left_out: Mapping[int | str, str],
        *,
        course: Path,
        hidden: list[Path],
        limits: Limits,
        unsafe: bool,
        slot: int,
        deadline: Deadline,
    ) -> None:
        self.limits, self.deadline = limits, deadline
        self.steps = [step for step in steps if not (isinstance(step, Cell) and step.number in left_out)]
        self.outputs: dict[int, list[dict[str, Any]]] = {}
        self.pipes: dict[str, tuple[int, int]] = {}
        self.open = ExitStack()
        self._start(course, hidden, unsafe, slot)

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        watch.end(self.process.pid)
        self.process.wait()
        self.open.close()

    def _start(self, course: Path, hidden: list[Path], unsafe: bool, slot: int) -> None:
        given: list[int] = []
        job_steps = []
        for step in self.steps:
            if isinstance(step, Cell):
                job_steps.append({"cell": step.number, "source": step.source})
                continue
            (inputs, ask), (hear, results) = os.pipe(), os.pipe()
            os.set_blocking(ask, False)
            self.pipes[step.id] = ask, hear
            given += [inputs, results]
            job_steps.append({"answer": step.answer, "inputs": inputs, "results": results})
        root = not unsafe and os.geteuid() == 0
        keys = ("memory", "processes", "output", "file", "cpu")
        job = {key: getattr(self.limits, key) for key in keys}
        job |= {"steps": job_steps, "uid": sandbox.FIRST_UID + os.getpid() % 10_000 * 1000 + slot if root else None}
        if unsafe:  # an ordinary user's processes are counted together, the teacher's own among them
            job["processes"] = None
            home = self.open.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            line, variables = [], sandbox.environment(str(course), home)
            runner, folder = str(course / "runner.py"), home
        else:
            line, variables = sandbox.command(course, hidden, self.limits), {"PATH": os.environ["PATH"]}
            runner, folder = f"{sandbox.COURSE}/runner.py", "/"
        self.process = subprocess.Popen(
            [*line, sys.executable, runner],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=given,
            start_new_session=True,
        )
        for handle in given:
            os.close(handle)
        for pair in self.pipes.values():
            for handle in pair:
                self.open.callback(os.close, handle)
        self.open.callback(self.process.stdout.close)
        self._give_job(json.dumps(job).encode() + b"\n")

    def _give_job(self, data: bytes) -> None:
        try:
            self.process.stdin.write(data)
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it did not start; reading will say so

    def cells(self) -> tuple[int | None, str]:
        """Follow the cells to the last. Returns (None, "") or the cell that has to be left out, and why."""
        current, buffer, total = NO_CELL, b"", 0
        self._begin(self.limits.start, self.limits.start)
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                try:
                    data = self._read(selector)
                    total += len(data)
                    if total > MAX_ALL:
                        raise _Stop("showed far too much")
                    buffer += data
                    while (frame := _frame(buffer)) is not None:
                        message, buffer = frame
                        if message.get("done"):
                            return None, ""
                        if type(message.get("began")) is int:
                            current = self._checked(message["began"])
                            self._begin(self.limits.cpu, self.limits.wall)
                        elif type(message.get("ended")) is int:
                            self.outputs[self._checked(message["ended"])] = shown.clean(
                                message.get("outputs"), self.limits.output
                            )
                except _Stop as stop:
                    return current, str(stop)

    def _checked(self, number: int) -> int:
        if not any(isinstance(step, Cell) and step.number == number for step in self.steps):
            raise _Stop("interfered with its own grading")
        return number

    def _begin(self, cpu: float, wall: float) -> None:
        self.since, self.cpu, self.wall = time.monotonic(), cpu, wall
        self.base = watch.of(self.process.pid)

    def _read(self, selector: selectors.BaseSelector) -> bytes:
        while not selector.select(TICK):
            self._check()
        self._check()
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        if not data:
            raise _Stop(ENDED)
        return data

    def _check(self) -> None:
        """Raise _Stop where the current cell or exercise uses more than it may."""
        now, use = time.monotonic(), watch.of(self.process.pid)
        if self.deadline.passed():
            raise _Stop(f"was stopped: all cells together took more than {self.limits.total} s")
        if use.memory - self.base.memory > self.limits.memory:
            raise _Stop(f"took more than {self.limits.memory >> 20} MiB of memory and was stopped")
        if use.processes > self.limits.processes + 4:
            raise _Stop(f"started more than {self.limits.processes} processes and was stopped")
        # Last: on a busy machine the first look may come late, and what takes too much also takes long.
        if use.cpu - self.base.cpu > self.cpu or now - self.since > self.wall:
            raise _Stop(STILL_RUNNING.format(self.limits.cpu))

    def ask_all(self, ran: Ran) -> None:
        """Hand the inputs to the copies that wait, one after another, and collect what they compute."""
        for step in self.steps:
            if isinstance(step, Question):
                self._begin(self.limits.cpu + 2, self.limits.wall)  # the kernel ends the copy a little earlier
                try:
                    ran.results[step.id] = self._ask(step)
                except _Stop as stop:
                    ran.stopped[step.id] = str(stop)

    def _ask(self, question: Question) -> bytes:
        ask, hear = self.pipes[question.id]
        left = memoryview(len(question.inputs).to_bytes(8, "little") + question.inputs)
        got, size = bytearray(), None
        with selectors.DefaultSelector() as selector:
            selector.register(hear, selectors.EVENT_READ)
            selector.register(ask, selectors.EVENT_WRITE)
            while size is None or len(got) < size:
                self._check()
                for key, _ in selector.select(TICK):
                    if key.fd == ask:
                        left = left[_write(ask, left) :]
                        if not left:
                            selector.unregister(ask)
                    elif not (data := os.read(hear, 1 << 20)):
                        raise _Stop(self._why_ended())
                    else:
                        got += data
                if size is None and len(got) >= 8:
                    size = int.from_bytes(got[:8], "little") + 8
                    if size > MAX_RESULT:
                        raise _Stop("returned far too much")
        return bytes(got[8:size])

    def _why_ended(self) -> str:
        long = time.monotonic() - self.since > self.limits.cpu - 1  # the kernel counts in whole seconds
        return STILL_RUNNING.format(self.limits.cpu) if long else ENDED


def _write(handle: int, data: memoryview) -> int:
    try:
        return os.write(handle, data[:65536])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        raise _Stop(ENDED) from None


def _frame(buffer: bytes) -> tuple[dict[str, Any], bytes] | None:
    """The first whole frame and what follows it, or None while there is none."""
    if len(buffer) < 4:
        return None
    size = int.from_bytes(buffer[:4], "little")
    if size > MAX_FRAME:
        raise _Stop("showed far too much")
    if len(buffer) < 4 + size:
        return None
    try:
        message = json.loads(buffer[4 : 4 + size])
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise _Stop("interfered with its own grading")
    return message, buffer[4 + size :]
