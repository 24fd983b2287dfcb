"""Run chapters and write their outputs, the text twin's inputs winning over the notebook's.

    python -m tools.book.outputs [--check] [chapter, file or folder ...]

Each chapter is executed from top to bottom in its own folder by a kernel of the Python that runs this command.
A cell that raises leaves the file as it was, unless the cell is tagged raises-exception. Run twice, the second run
changes nothing. With --check nothing is written: what the cells say in text is compared with what is committed.
"""

from __future__ import annotations

import argparse
import copy
import difflib
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import ipykernel.kernelspec
import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from tools.book import stable, twins
from tools.files import write_whole

ROOT = twins.ROOT
CELL_TIMEOUT = 300  # seconds; a chapter is meant to take under 60 in all
STARTUP_TIMEOUT = 120
RAISES = "raises-exception"


class ChapterError(Exception):
    """A chapter cannot be run or written; the message says which cell and why."""


class _ThisPython(KernelSpecManager):
    """Knows one kernel: the Python that runs this, whatever kernels are installed on the machine."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        spec = ipykernel.kernelspec.get_kernel_dict()
        spec["argv"][0] = sys.executable
        return KernelSpec(resource_dir="", **spec)


def _describe(notebook: NotebookNode, position: int) -> str:
    number = sum(cell.cell_type == "code" for cell in notebook.cells[: position + 1])
    lines = notebook.cells[position].source.splitlines()
    shown = "\n".join(f"    {line}" for line in lines[:6]) + ("\n    ..." if len(lines) > 6 else "")
    return f"code cell {number}\n{shown}"


def execute(
    notebook: NotebookNode, folder: Path, *, name: str, environment: Mapping[str, str | None] | None = None
) -> NotebookNode:
    """A copy of `notebook`, executed with `folder` as working directory, its outputs made reproducible.

    `environment` adds to the variables that the kernel sees; a value of None takes one away.
    Raises ChapterError when a cell raises, when one tagged raises-exception does not, or when the kernel dies.
    """
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    with tempfile.TemporaryDirectory() as private:
        variables = {
            **os.environ,
            "IPYTHONDIR": private,  # nobody's start-up files
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            **(environment or {}),
        }
        variables.pop("PYTEST_CURRENT_TEST", None)  # the kernel would treat C-level output differently
        manager = AsyncKernelManager(kernel_spec_manager=_ThisPython(), kernel_name="python3")
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=CELL_TIMEOUT,
            startup_timeout=STARTUP_TIMEOUT,
            record_timing=False,
            store_widget_state=True,
            resources={"metadata": {"path": str(folder)}},
        )
        try:
            client.execute(
                env={key: value for key, value in variables.items() if value is not None},
                stderr=subprocess.DEVNULL,
                cleanup_kc=True,
            )
        except CellExecutionError as error:
            position = next(
                index
                for index, cell in enumerate(notebook.cells)
                if any(output.output_type == "error" for output in cell.get("outputs", []))
                and RAISES not in stable.tags(cell)
            )
            where = _describe(notebook, position)
            raise ChapterError(f"{name}: {where}\n  raised {error.ename}: {error.evalue}") from None
        except CellTimeoutError:
            raise ChapterError(f"{name}: a cell was still running after {CELL_TIMEOUT} s") from None
        except DeadKernelError:
            raise ChapterError(f"{name}: the kernel died while a cell was running (out of memory?)") from None
    for position, cell in enumerate(notebook.cells):
        if RAISES in stable.tags(cell) and not any(out.output_type == "error" for out in cell.outputs):
            raise ChapterError(f"{name}: {_describe(notebook, position)}\n  is tagged {RAISES} and did not raise")
    return stable.settle(notebook, name)


def with_ids(notebook: NotebookNode, old: NotebookNode | None) -> NotebookNode:
    """Give the cells of `notebook` their ids: those that `old` has for the same cells, else a hash of their place.

    A cell edited where it stands keeps its id too.
    """
    kept: dict[int, str] = {}
    if old is not None:
        key = [(cell.cell_type, cell.source) for cell in old.cells]
        new_key = [(cell.cell_type, cell.source) for cell in notebook.cells]
        matcher = difflib.SequenceMatcher(None, key, new_key, autojunk=False)
        for kind, start, end, new_start, new_end in matcher.get_opcodes():
            if kind == "equal" or (kind == "replace" and end - start == new_end - new_start):
                for index, new_index in zip(range(start, end), range(new_start, new_end), strict=True):
                    if kind == "equal" or key[index][0] == new_key[new_index][0]:
                        kept[new_index] = old.cells[index].id
    taken = set(kept.values())
    for index, cell in enumerate(notebook.cells):
        attempt = 0
        while index not in kept:
            place = f"{index}:{attempt}:{cell.cell_type}:{cell.source}"
            candidate = hashlib.sha256(place.encode()).hexdigest()[:8]
            attempt += 1
            if candidate not in taken:
                kept[index] = candidate
                taken.add(candidate)
        cell.id = kept[index]
    return notebook


def load(stem: Path) -> tuple[NotebookNode, NotebookNode | None]:
    """The inputs of a chapter, from its text where there is one, and the notebook as it is on disk (or None)."""
    notebook_path, text_path = stem.with_name(stem.name + ".ipynb"), stem.with_name(stem.name + ".md")
    old = nbformat.read(notebook_path, as_version=4) if notebook_path.is_file() else None
    for position in twins.lossy_cells(old) if old else ():
        raise ChapterError(
            f"{notebook_path}: cell {position} is Markdown with a line that begins with {twins.CELL_BORDER}, which "
            "the text reads as the end of a cell: write that line differently"
        )
    if text_path.is_file():
        inputs = twins.read_text(text_path)
    elif old is not None:
        inputs = copy.deepcopy(old)
    else:
        raise ChapterError(f"{stem}: neither {notebook_path.name} nor {text_path.name} is there")
    inputs.nbformat, inputs.nbformat_minor = 4, 5
    return with_ids(inputs, old), old


def compare(have: NotebookNode, ran: NotebookNode) -> list[str]:
    """Where the text outputs of `ran` are not those of `have`: one readable string for each cell."""
    findings = []
    if [(c.cell_type, c.source) for c in have.cells] != [(c.cell_type, c.source) for c in ran.cells]:
        return ["the notebook's inputs are not those of its text: run `python -m tools.book.outputs` on it"]
    for position, (cell, again) in enumerate(zip(have.cells, ran.cells, strict=True)):
        if cell.cell_type != "code" or stable.tags(cell) & stable.IGNORE_TAGS:
            continue
        left, right = _said(cell), _said(again)
        if left != right:
            diff = difflib.unified_diff(left, right, "committed", "this run", n=1, lineterm="")
            findings.append("\n".join([_describe(have, position), *(f"  {line}" for line in diff)]))
    return findings


def _said(cell: NotebookNode) -> list[str]:
    lines = []
    for output in stable.merge_streams(cell.outputs):
        stable.settle_output(output)
        for kind, text in stable.texts(output).items():
            lines += [f"[{kind}]", *text.splitlines()]
    return lines


def check(stem: Path, environment: Mapping[str, str | None] | None = None) -> list[str]:
    """Execute a chapter in memory, and say where its text outputs differ from those committed."""
    inputs, old = load(stem)
    if old is None:
        return ["there is no notebook yet"]
    ran = execute(inputs, stem.parent, name=stem.name, environment=environment)
    return compare(old, ran)


def refresh(stem: Path) -> list[str]:
    """Execute a chapter and write its twins where they change; returns the names of the files written."""
    notebook_path, text_path = stem.with_name(stem.name + ".ipynb"), stem.with_name(stem.name + ".md")
    before = [path.read_bytes() if path.is_file() else None for path in (notebook_path, text_path)]
    inputs, old = load(stem)
    # On the CPU, also where there is a GPU: what is committed must not depend on the author's machine.
    ran = execute(inputs, stem.parent, name=stem.name, environment={"CUDA_VISIBLE_DEVICES": ""})
    if old is not None:
        stable.keep_ignored(ran, old)
    nbformat.validate(ran)
    if before != [path.read_bytes() if path.is_file() else None for path in (notebook_path, text_path)]:
        raise ChapterError(f"{stem.name}: one of its files was changed while it ran: run this again")
    written = []
    if write_whole(notebook_path, (nbformat.writes(ran) + "\n").encode()):
        written.append(notebook_path.name)
    text = twins.text_of(ran)
    if not text_path.is_file() or twins.comparable(text) != twins.comparable(text_path.read_text("utf-8")):
        write_whole(text_path, text.encode())
        written.append(text_path.name)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.book.outputs", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare in memory, write nothing")
    parser.add_argument("chapters", nargs="*", help="chapters, files or folders (default: all)")
    options = parser.parse_args(arguments)
    failed = 0
    for stem in twins.stems(options.chapters):
        start = time.perf_counter()
        try:
            findings = check(stem) if options.check else []
            written = [] if options.check else refresh(stem)
        except ChapterError as error:
            findings, written = [f"{error}\n  nothing written"], []
        seconds = time.perf_counter() - start
        failed += bool(findings)
        result = "failed" if findings else f"wrote {' and '.join(written)}" if written else "no change"
        print(f"{stem.name}: {result} ({seconds:.0f} s)", flush=True)
        for finding in findings:
            print(finding, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
