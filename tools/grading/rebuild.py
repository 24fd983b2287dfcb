"""The released notebook with a student's answers in it: whatever else was changed in the submission has no effect.

An answer is looked for by nbgrader's name of its cell, by the id of the cell, by the name that the cell defines, and
by its place between cells that were given. Of several the last one that was written in counts, as it does when the
notebook is run from top to bottom. Cells of the student's own are taken over only where an answer uses what they
define.
"""

from __future__ import annotations

import ast
import copy
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode, from_dict
from nbformat.v4 import new_code_cell

from tools.grading.assignment import Assignment, is_answer, is_test, tag

MAX_BYTES = 32 << 20
MAX_SOURCE = 200_000  # characters of one answer
DEFINITION = re.compile(r"^(?:(?:async +)?(?:def|class) +(\w+)|(\w+) *=)", re.MULTILINE)  # in code that is no Python
TAG_OPENS = re.compile(r"<(?=[A-Za-z/!?])")  # HTML in a text: it would be live in the teacher's browser


class Unreadable(Exception):
    """A submission is no notebook; the message is for teacher and student."""


@dataclass(frozen=True)
class Found:
    """A cell of a submission, whatever program saved it."""

    kind: str
    source: str
    names: frozenset[str]  # nbgrader's name
    ids: frozenset[str]


@dataclass(frozen=True)
class Rebuilt:
    notebook: NotebookNode
    notes: list[str]  # what was changed in the submission, for the teacher


def read(path: Path) -> bytes:
    """The bytes of a submission; refuses links and anything else that is not a file of its own."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be read ({error.strerror}): it must be a file and no link") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Unreadable(f"{path.name} is not a file")
    with os.fdopen(handle, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Unreadable(f"{path.name} is larger than {MAX_BYTES >> 20} MiB: clear its outputs and hand it in again")
    return data


def cells_of(data: bytes) -> list[Found]:
    """The cells of a notebook file, formats 3 and 4, with or without metadata."""
    try:
        tree = json.loads(data)
        if "worksheets" in tree:
            listed = [cell for sheet in tree["worksheets"] for cell in sheet["cells"]]
        else:
            listed = tree["cells"]
        return [_found(cell) for cell in listed]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unreadable("this is no Jupyter notebook: hand in the .ipynb file, as it was downloaded") from None


def _found(cell: dict) -> Found:
    lines = cell.get("source", cell.get("input", ""))
    text = "".join(line for line in lines if isinstance(line, str)) if isinstance(lines, list) else lines
    if not isinstance(text, str):
        raise TypeError
    text = text.encode("utf-8", "replace").decode().replace("\r\n", "\n")
    if len(text) > MAX_SOURCE:
        text = text[:MAX_SOURCE]
    metadata = cell.get("metadata") if isinstance(cell.get("metadata"), dict) else {}
    mark = metadata.get("nbgrader") if isinstance(metadata.get("nbgrader"), dict) else {}
    known = [value for value in (mark.get("grade_id"),) if isinstance(value, str)]
    ids = [value for value in (cell.get("id"), metadata.get("id")) if isinstance(value, str)]
    return Found("code" if cell.get("cell_type") == "code" else "text", text, frozenset(known), frozenset(ids))


def rebuild(assignment: Assignment, cells: list[Found]) -> Rebuilt:
    """The released notebook with the answers of `cells`, and notes on what was changed."""
    released = copy.deepcopy(assignment.notebook)
    search = _Search(released, cells)
    for cell in released.cells:
        if is_answer(cell):
            cell.source = search.answer(cell)
    search.compare_given()
    notebook = _with_helpers(released, search)
    for cell in notebook.cells:
        cell.metadata.pop("collapsed", None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return Rebuilt(notebook, search.notes)


class _Search:
    """Looks for answers among the cells of a submission, and notes what is odd."""

    def __init__(self, released: NotebookNode, cells: list[Found]) -> None:
        self.cells, self.notes = cells, []
        self.taken: set[int] = set()
        self.released = released.cells
        self.given = {}  # the places, in the submission, of cells that were given
        sources = [cell.source.strip() for cell in cells]
        for place, cell in enumerate(self.released):
            same = [at for at, found in enumerate(cells) if self._is(found, cell)]
            if not same and not is_answer(cell) and cell.source.strip():
                same = [at for at, source in enumerate(sources) if source == cell.source.strip()]
            self.given[place] = same

    @staticmethod
    def _is(found: Found, cell: NotebookNode) -> bool:
        name = tag(cell).get("grade_id")
        if name is not None and found.names:
            return name in found.names
        return cell.get("id") in found.ids

    def answer(self, cell: NotebookNode) -> str:
        place = self.released.index(cell)
        name, blank = tag(cell).grade_id, cell.source.strip()
        by_name = self.given[place]
        written = [at for at in by_name if self.cells[at].source.strip() != blank]
        if len(by_name) > 1:
            self.notes.append(f"{name}: there are {len(by_name)} cells of this name; the last one written in counts")
        how = ""
        if not written:
            how, written = self._elsewhere(place, cell, blank)
        self.taken.update(by_name, written)
        if not written:
            if not by_name and not any(found.source.strip() == blank for found in self.cells):
                self.notes.append(f"{name}: no answer was found")
            return cell.source
        if how:
            self.notes.append(f"{name}: the answer was found {how}")
        text = self.cells[written[-1]].source
        if how.startswith("by its place"):
            text = "\n\n".join(self.cells[at].source for at in written)
        if cell.cell_type != "code" and TAG_OPENS.search(text):
            self.notes.append(f"{name}: HTML in the text is shown as text")
            text = TAG_OPENS.sub("< ", text)
        return text

    def _elsewhere(self, place: int, cell: NotebookNode, blank: str) -> tuple[str, list[int]]:
        kind = "code" if cell.cell_type == "code" else "text"
        known = {at for places in self.given.values() for at in places}
        free = [at for at in range(len(self.cells)) if at not in known | self.taken and self.cells[at].kind == kind]
        free = [at for at in free if self.cells[at].source.strip() not in ("", blank)]
        if kind == "code":
            wanted = defines(cell.source)
            found = [at for at in free if wanted & defines(self.cells[at].source)]
            return f"in another cell, by the name {', '.join(sorted(wanted))}", found
        if self.given[place]:
            return "", []  # its own cell is there, and nothing was written in it
        before = [at for p in range(place) for at in self.given[p]]
        after = [at for p in range(place + 1, len(self.released)) for at in self.given[p]]
        low, high = max(before, default=-1), min(after, default=len(self.cells))
        return "by its place between the given cells", [at for at in free if low < at < high]

    def compare_given(self) -> None:
        """Note which of the cells that were given are not in the submission as they were."""
        for place, cell in enumerate(self.released):
            if is_answer(cell) or not (is_test(cell) or cell.cell_type == "code"):
                continue
            name = tag(cell).get("grade_id") or f"given cell {place + 1}"
            found = [self.cells[at].source.strip() for at in self.given[place]]
            if not found:
                self.notes.append(f"{name}: deleted or replaced; the released cell is used")
            elif any(source != cell.source.strip() for source in found):
                self.notes.append(f"{name}: edited; the released cell is used")
            elif len(found) > 1:
                self.notes.append(f"{name}: there {len(found)} times; used once")

    def helpers(self) -> dict[int, str]:
        """Cells of the student's own: neither given nor an answer."""
        known = {at for places in self.given.values() for at in places} | self.taken
        return {
            at: cell.source
            for at, cell in enumerate(self.cells)
            if at not in known and cell.kind == "code" and cell.source.strip()
        }


def _with_helpers(released: NotebookNode, search: _Search) -> NotebookNode:
    """Put the student's own cells in front of the first answer that uses what they define."""
    own = search.helpers()
    given = set().union(*(defines(cell.source) for cell in released.cells if cell.cell_type == "code"))
    cells = []
    for cell in released.cells:
        if is_answer(cell) and cell.cell_type == "code":
            needed: set[int] = set()
            wanted = uses(cell.source) - given
            while more := {at for at, text in own.items() if at not in needed and defines(text) & wanted}:
                needed |= more
                wanted = set().union(*(uses(own[at]) for at in more)) - given
            for at in sorted(needed):
                search.notes.append(f"{tag(cell).grade_id}: uses a cell that the student added")
                helper = new_code_cell(own.pop(at), id=f"added-{at}")
                cells.append(from_dict({**helper, "metadata": {}}))
        cells.append(cell)
    released.cells = cells
    return released


def defines(source: str) -> set[str]:
    """Names that a cell defines or imports at its top level."""
    tree = _parsed(source)
    if tree is None:
        return {first or second for first, second in DEFINITION.findall(source)}
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        else:
            inner = ast.walk(node)
            names |= {part.id for part in inner if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return names


def uses(source: str) -> set[str]:
    """Names that occur in a cell."""
    tree = _parsed(source)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if tree else set()


def _parsed(source: str) -> ast.Module | None:
    lines = [re.sub(r"^(\s*)[%!].*", r"\1pass", line) for line in source.split("\n")]  # magics are no Python
    try:
        return ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
