"""Runs one rebuilt notebook inside the sandbox. It only computes: marks are given outside, from what it returns.

The job comes as one line of JSON on standard input; what happens is told on standard output in frames (length, JSON).
Code cells run in order in one IPython. Where the notebook checks an exercise, the process is copied (fork): the copy
waits, with everything as the student saw it there, until the inputs arrive on its own pipe. They are sent after the
last cell, so that no cell can print them, and a copy that dies or never ends costs its own exercise only.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
from typing import Any

CUT = "\n… (cut here)\n"
MIB = 1 << 20


class Capture(io.TextIOBase):
    """A stream that keeps the first `limit` characters of a cell's text, in the order of its outputs."""

    def __init__(self, name: str, recorder: Recorder) -> None:
        self.name, self.recorder = name, recorder

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.recorder.text(self.name, str(text))
        return len(text)


class Recorder:
    """The outputs of the cell that is running, in nbformat's form, cut off at a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.start()

    def start(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.left = self.limit

    def text(self, name: str, text: str) -> None:
        if self.left <= 0:
            return
        kept = text[: self.left]
        self.left -= len(text)
        if self.left <= 0:
            kept += CUT
        last = self.outputs[-1] if self.outputs else {}
        if last.get("output_type") == "stream" and last["name"] == name:
            last["text"] += kept
        else:
            self.outputs.append({"output_type": "stream", "name": name, "text": kept})

    def data(self, kind: str, data: dict[str, Any]) -> None:
        kept = {key: data[key] for key in ("text/plain", "image/png") if isinstance(data.get(key), str)}
        size = sum(map(len, kept.values()))
        if kept and size <= self.left + MIB:  # a figure may be larger than text
            self.left -= min(size, self.left)
            self.outputs.append({"output_type": kind, "data": kept, "metadata": {}})

    def error(self, kind: type, value: BaseException, lines: list[str]) -> None:
        shown = "\n".join(lines)[-self.limit :].split("\n")
        told = {"ename": kind.__name__, "evalue": str(value)[:1000], "traceback": shown}
        self.outputs.append({"output_type": "error", **told})


def make_shell(recorder: Recorder) -> Any:
    """An IPython whose outputs go to `recorder`; nothing of it is kept on disk."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Hook(DisplayHook):
        def __call__(self, result: object = None) -> None:
            if result is not None and not self.quiet():
                data, _ = self.compute_format_data(result)
                self.update_user_ns(result)
                recorder.data("execute_result", data)

    class Publisher(DisplayPublisher):
        def publish(self, data: dict, *arguments: object, **named: object) -> None:
            recorder.data("display_data", data)

    class Shell(InteractiveShell):
        displayhook_class = Hook
        display_pub_class = Publisher

        def _showtraceback(self, etype: type, evalue: BaseException, stb: list[str]) -> None:
            recorder.error(etype, evalue, [str(line) for line in stb])

        def enable_gui(self, gui: str | None = None) -> None:
            """There is no window here."""

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    return Shell.instance(config=config)


def limit(job: dict[str, Any]) -> None:
    """Take root's rights away where there are any, and set what the kernel enforces. After the large imports."""
    if job["uid"] is not None:
        os.setgroups([])
        os.setgid(job["uid"])
        os.setuid(job["uid"])
    with open("/proc/self/statm") if sys.platform == "linux" else io.StringIO("0") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_AS: used + job["memory"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: job["file"],
        resource.RLIMIT_NOFILE: 512,
    }
    if job["processes"]:
        limits[resource.RLIMIT_NPROC] = job["processes"]
    for name, value in limits.items():
        with contextlib.suppress(ValueError, OSError):  # macOS knows no limit on memory
            resource.setrlimit(name, (value, value))


def limit_cpu(seconds: int) -> None:
    """The kernel ends this process after so many more seconds of work."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (until, until))


def read_exactly(handle: int, size: int) -> bytes:
    pieces = []
    while size:
        piece = os.read(handle, min(size, MIB))
        if not piece:
            os._exit(0)  # nobody will ask any more
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def wait_and_answer(step: dict[str, Any], names: dict[str, object], seconds: int) -> None:
    """In the copy: wait for inputs, apply the answer to them, send back what came out."""
    import torch

    from mhalib.checks.data import Outcome
    from mhalib.checks.encode import decode_cases, encode
    from mhalib.checks.run import run

    torch.set_num_threads(1)  # OpenMP's threads did not come along with the copy
    cases = decode_cases(read_exactly(step["inputs"], int.from_bytes(read_exactly(step["inputs"], 8), "little")))
    limit_cpu(seconds)
    missing = Outcome(error=f"NameError: no {step['answer']} is defined")
    try:
        outcomes = run(names[step["answer"]], cases) if step["answer"] in names else [missing] * len(cases)
        data = encode(outcomes)
    except BaseException as error:  # KeyboardInterrupt, or an outcome that cannot be encoded
        data = encode([Outcome(error=f"{type(error).__name__}: ")] * len(cases))
    write_all(step["results"], len(data).to_bytes(8, "little") + data)


def copy_here(step: dict[str, Any], later: list[dict[str, Any]], shell: Any, seconds: int) -> None:
    """Leave a copy of this process behind for an exercise; it alone holds the exercise's pipes."""
    try:
        child = os.fork()
    except OSError:  # the cells before used up the processes
        child = -1
    for other in [step] if child else later:
        if "answer" in other:
            os.close(other["inputs"])
            os.close(other["results"])
    if child:
        return
    try:
        for stream in (0, 1, 2):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        sys.stdout = sys.stderr = io.StringIO()
        wait_and_answer(step, shell.user_ns, seconds)
    finally:
        os._exit(0)


def main() -> None:
    job = json.loads(sys.stdin.buffer.readline())
    told = os.dup(1)
    os.set_inheritable(told, False)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)

    def tell(**frame: object) -> None:
        data = json.dumps(frame).encode()
        write_all(told, len(data).to_bytes(4, "little") + data)

    import mhalib.checks.encode
    import mhalib.checks.run  # noqa: F401 - so that the copies need not import them

    recorder = Recorder(job["output"])
    shell = make_shell(recorder)
    limit(job)
    sys.stdout, sys.stderr = Capture("stdout", recorder), Capture("stderr", recorder)
    for place, step in enumerate(job["steps"], 1):
        if "answer" in step:
            copy_here(step, job["steps"][place:], shell, job["cpu"])
            continue
        tell(began=step["cell"])
        recorder.start()
        try:
            shell.run_cell(step["source"], store_history=True)
        except BaseException as error:
            recorder.error(type(error), error, [f"{type(error).__name__}: {error}"])
        tell(ended=step["cell"], outputs=recorder.outputs)
    tell(done=True)
    while True:  # the copies live only as long as this process
        signal.pause()


if __name__ == "__main__":
    main()
