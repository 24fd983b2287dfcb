"""Deliberate faults: each is put into a copy of mhalib alone, and the tests named for it have to fail there."""

import multiprocessing
import os
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).resolve().parent
LIBRARY = HERE.parent / "mhalib"

# Where the system can fork, every process starts with torch already imported: half a second instead of three.
PROCESSES = multiprocessing.get_context(
    "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
)
if PROCESSES.get_start_method() == "forkserver":
    PROCESSES.set_forkserver_preload(["hypothesis.strategies", "numpy", "pytest", "torch"])


class Fault(NamedTuple):
    """In `file`, `old` (which stands there once) becomes `new`; the tests of `test_file` that match `only` fail."""

    name: str
    file: str
    old: str
    new: str
    test_file: str
    only: str


def lay_out(folder: Path, test_files: set[str], fault: Fault | None = None) -> None:
    """A copy of mhalib, with the fault, beside the tests; a conftest refuses any other mhalib."""
    shutil.copytree(LIBRARY, folder / "mhalib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("oracle.py", *test_files):
        shutil.copy(HERE / name, folder / name)
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (folder / "conftest.py").write_text(
        "from pathlib import Path\n\nimport mhalib\n\n"
        "assert Path(mhalib.__file__).parent == Path(__file__).parent / 'mhalib', mhalib.__file__\n",
        "utf-8",
    )
    if fault:
        path = folder / "mhalib" / fault.file
        text = path.read_text("utf-8")
        times = text.count(fault.old)
        assert times == 1, f"stale fault: {fault.old!r} stands {times} times in mhalib/{fault.file}, not once"
        path.write_text(text.replace(fault.old, fault.new), "utf-8")


def run(folder: Path, test_files: set[str], only: str) -> tuple[int, str]:
    """The exit status and the report of pytest on the copy, in a process of its own."""
    report = folder / "report.txt"
    process = PROCESSES.Process(target=_run_here, args=(folder, sorted(test_files), only, report))
    process.start()
    process.join(timeout=600)
    assert process.exitcode is not None, f"no end after ten minutes\n{report.read_text('utf-8')}"
    return process.exitcode, report.read_text("utf-8")


def _run_here(folder: Path, test_files: list[str], only: str, report: Path) -> None:
    with report.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    assert "mhalib" not in sys.modules
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    os.chdir(folder)
    for name in [name for name in os.environ if name.startswith("PYTEST")]:
        del os.environ[name]
    # No plugin that is installed takes part; the property tests draw the same examples every time.
    os.environ |= {"PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1", "CI": "1"}
    sys.exit(pytest.main(["-x", "-q", "--tb=short", "-p", "no:cacheprovider", "-k", only, *test_files]))


def passes_without(faults: list[Fault], folder: Path) -> None:
    """The tests named for the faults pass on an untouched copy."""
    test_files = {fault.test_file for fault in faults}
    lay_out(folder, test_files)
    status, report = run(folder, test_files, " or ".join(sorted({f"({fault.only})" for fault in faults})))
    assert status == 0, report
    assert re.search(r"^\d+ passed", report, re.MULTILINE)


def is_caught(fault: Fault, folder: Path) -> None:
    """One test fails, by an assertion, and nothing breaks."""
    assert fault.old != fault.new
    lay_out(folder, {fault.test_file}, fault)
    status, report = run(folder, {fault.test_file}, fault.only)
    assert status == 1, f"exit status {status}: not caught, or not run\n{report}"
    summary = report.strip().splitlines()[-1]
    assert re.search(r"\b1 failed\b", summary), report
    assert "error" not in summary, f"an error, not a failed assertion\n{report}"
    assert re.search(r"^E +(AssertionError|assert |Failed: DID NOT RAISE)", report, re.MULTILINE), report


def number_of_names(faults: list[Fault]) -> int:
    """How many faults there are; no two may have one name."""
    names = {fault.name for fault in faults}
    assert len(names) == len(faults)
    return len(names)
