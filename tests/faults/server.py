"""Runs of pytest, each in a process of its own that is forked from one which has imported torch.

Such a process takes mhalib as it stands, with one module replaced by a changed file; nothing is copied, and nothing of
one run reaches the next.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from engine import LIBRARY, ROOT

TESTS = ROOT / "tests"
HERE = Path(__file__).resolve().parent
#: Imported once, before forking; torch and Triton import some of it when they are first used. What is not there is
#: left out.
HEAVY = (
    *("numpy.ma", "matplotlib", "pytest", "torch._dynamo", "torch.utils.flop_counter", "hypothesis.strategies"),
    *("sklearn.datasets", "sklearn.model_selection", "transformers"),
)
HEAVY_OF_TRITON = ("triton.runtime.interpreter", "triton.experimental.gluon.language")


def path_of(test_file: str) -> str:
    """Where under tests/ the file of this name is."""
    found = [path for path in TESTS.rglob(test_file) if HERE not in path.parents]
    if len(found) != 1:
        raise FileNotFoundError(f"{test_file}: stands {len(found)} times under tests/, and has to be there once")
    return str(found[0].relative_to(ROOT))


class Outcome(NamedTuple):
    """What a run of pytest came to; `failures` says (test, by an assertion?, the last lines) of each that failed."""

    status: int | None
    passed: int
    failures: list[tuple[str, bool, str]]
    errors: list[str]
    report: str
    seconds: float

    @property
    def is_caught(self) -> bool:
        """A test failed by an assertion, and nothing broke."""
        return self.status == 1 and not self.errors and bool(self.failures) and all(f[1] for f in self.failures)


class Server:
    """A process with torch imported, of which each run is a fork. With `interpret`, Triton interprets its kernels."""

    def __init__(self, *, interpret: bool = False):
        hidden = ("PYTEST", "COV", "TRITON", "MHALIB")
        self.scratch = tempfile.TemporaryDirectory(prefix="faults-")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        # The property tests draw the same examples every time in CI.
        environment |= {"OMP_NUM_THREADS": "1", "CI": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        environment |= {"PYTHONPYCACHEPREFIX": str(Path(self.scratch.name) / "compiled")}
        environment |= {"PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT)])}
        if interpret:
            environment |= {"TRITON_INTERPRET": "1", "MHALIB_INTERPRETED_CHILD": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "server.py"), *HEAVY, *(HEAVY_OF_TRITON if interpret else ())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=ROOT,
            text=True,
        )
        self.number = 0

    def run(
        self,
        tests: list[str],
        only: str = "",
        *,
        file: str | None = None,
        text: str | None = None,
        limit_s: float = 300,
    ) -> Outcome:
        """pytest on `tests`, as far as `only` selects; mhalib's `file` has the given text."""
        self.number += 1
        report = Path(self.scratch.name) / f"{self.number}.txt"
        changed = None
        if file is not None:
            changed = Path(self.scratch.name) / f"{self.number}.py"
            changed.write_text(text, "utf-8")
        order = {"tests": tests, "only": only, "file": file, "changed": changed and str(changed), "report": str(report)}
        start = time.monotonic()
        self.process.stdin.write(json.dumps(order | {"limit_s": limit_s}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that runs the tests has ended")
        status, said = json.loads(answer)
        said = said or {"passed": 0, "failures": [], "errors": []}
        printed = report.read_text("utf-8", "replace") if report.exists() else ""
        return Outcome(status, **said, report=printed, seconds=time.monotonic() - start)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.scratch.cleanup()


class _Changed(importlib.abc.MetaPathFinder):
    """Finds one module of mhalib in another file; the module itself believes it is where it was."""

    def __init__(self, file: str, changed: str):
        self.path, self.changed = LIBRARY / file, changed
        parts = ["mhalib", *Path(file).with_suffix("").parts]
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.was_imported = False

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        self.was_imported = True
        inside = [str(self.path.parent)] if self.is_package else None
        spec = importlib.util.spec_from_file_location(name, self.changed, submodule_search_locations=inside)
        run = spec.loader.exec_module
        original = str(self.path)

        def exec_module(module):
            module.__file__ = original  # tables and widgets lie beside it
            run(module)

        spec.loader.exec_module = exec_module
        return spec


class _Results:
    """A plugin for pytest that keeps what happened."""

    def __init__(self):
        self.said = {"passed": 0, "failures": [], "errors": []}

    def pytest_runtest_makereport(self, item, call):
        error = call.excinfo
        if error is None:
            self.said["passed"] += call.when == "call"
        elif _name(error.value) != "Skipped":
            line = f"{item.nodeid}: {error.exconly()}"[-2000:]
            if call.when == "call":
                self.said["failures"].append((item.nodeid, _is_assertion(error.value), line))
            else:
                self.said["errors"].append(line)

    def pytest_collectreport(self, report):
        if report.failed:
            self.said["errors"].append(f"{report.nodeid}: {report.longreprtext[-2000:]}")


def _name(error: BaseException) -> str:
    return type(error).__name__


def _is_assertion(error: BaseException) -> bool:
    """An assertion, "DID NOT RAISE", or a group that hypothesis makes of several and that holds one."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_assertion, error.exceptions))
    return isinstance(error, AssertionError) or _name(error) == "Failed"


def _child(order: dict) -> None:
    """In the fork: run pytest, write what came of it, end."""
    with open(order["report"], "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    assert "mhalib" not in sys.modules
    import pytest

    finder = None
    if order["file"] is not None and order["file"].endswith(".py"):
        finder = _Changed(order["file"], order["changed"])
        sys.meta_path.insert(0, finder)
    results = _Results()
    arguments = ["-x", "-q", "--tb=short", "-p", "no:cacheprovider", "-o", "addopts=", f"--rootdir={ROOT}"]
    status = pytest.main([*arguments, *(["-k", order["only"]] if order["only"] else []), *order["tests"]], [results])
    import mhalib

    assert Path(mhalib.__file__).parent == LIBRARY or finder, mhalib.__file__
    if finder and not finder.was_imported:
        results.said["errors"].append(f"the tests import no mhalib/{order['file']}")
    with open(order["report"] + ".json", "w", encoding="utf-8") as file:
        json.dump(results.said, file)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(status))


def _without_shrinking() -> None:
    """That a property fails is enough: hypothesis need not look for the smallest example."""
    with contextlib.suppress(ImportError):
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("faults", settings.get_profile("ci"), phases=phases)
        settings.load_profile("faults")


def _serve(heavy: list[str]) -> None:
    for name in heavy:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    _without_shrinking()
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                _child(order)
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(70)
        status = _wait(pid, order["limit_s"])
        said = Path(order["report"] + ".json")
        answer = json.loads(said.read_text("utf-8")) if said.exists() else None
        replies.write(json.dumps([status, answer]) + "\n")
        replies.flush()


def _wait(pid: int, limit_s: float) -> int | None:
    """The exit status, below 0 for a signal; None where the time was up."""
    handle = os.pidfd_open(pid)
    try:
        ended, _, _ = select.select([handle], [], [], limit_s)
    finally:
        os.close(handle)
    if not ended:
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if ended else None


if __name__ == "__main__":
    _serve(sys.argv[1:])
