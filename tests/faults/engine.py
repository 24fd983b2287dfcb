"""Deliberate faults of mhalib, each named by what it changes: in one function, one piece of code becomes another.

A fault says its code by meaning (see `matching`): renaming a local variable, a comment or another layout leave it as it
is. When the code itself was written anew, `changed` raises `Stale`, which says what to rewrite.
"""

from __future__ import annotations

import ast
import difflib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import matching

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "mhalib"


class Fault(NamedTuple):
    """In `place` of mhalib's `file`, `before` becomes `after`; then tests named in `caught_by` have to fail.

    Attributes:
        concept: what is wrong then, in words.
        file, place: the file in mhalib; the qualified name of a function or class in it, "" for the module itself.
        before, after: an expression each, or statements each ("" for none). It must stand in the place once. Without
            `before`, `after` is run at the end of the module, which can replace anything in it. In a file that is
            not Python, `before` is text.
        caught_by: "test_file.py::what pytest's -k takes"; the file is searched for under tests/.
        also: more pairs of (before, after).
        given: more code that stands in the place, for local names that stand in `after` and not in `before`.
        nth: which one is meant, from 0, where the code stands in the place several times.
    """

    concept: str
    file: str
    place: str
    before: str
    after: str
    caught_by: str
    also: tuple[tuple[str, str], ...] = ()
    given: tuple[str, ...] = ()
    nth: int | None = None

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        return (self.before, self.after), *self.also

    @property
    def test_file(self) -> str:
        return self.caught_by.partition("::")[0]

    @property
    def only(self) -> str:
        return self.caught_by.partition("::")[2]


class Stale(Exception):
    """A fault that no longer applies; the message says what to rewrite."""


class _Edit(NamedTuple):
    before: list[ast.stmt]
    after: list[ast.stmt]
    as_expression: bool


def changed(fault: Fault, library: Path = LIBRARY) -> str:
    """The text of `fault.file` with the fault in it."""
    path = library / fault.file
    if not path.is_file():
        raise Stale(_message(fault, library, f"mhalib/{fault.file} is not there"))
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        if text.count(fault.before) != 1:
            raise Stale(_message(fault, library, f"it stands there {text.count(fault.before)} times"))
        return text.replace(fault.before, fault.after)
    if not fault.before:
        return f"{text}\n{fault.after}\n"
    return ast.unparse(apply(fault, ast.parse(text), library)) + "\n"


def apply(fault: Fault, module: ast.Module, library: Path = LIBRARY) -> ast.Module:
    """`module` itself, with the fault in it."""
    places = list(definitions(module, fault.place))
    if not places:
        raise Stale(_message(fault, library, "no such function or class is there"))
    scope = matching.Scope(module, places)
    edits = [_edit(*pair) for pair in fault.pairs] + [_edit(given, given) for given in fault.given]
    ways = list(_ways(edits, scope, matching.Found()))
    # Two ways that change the same code in the same way are one: `given` may stand in several places.
    changing = len(fault.pairs)
    ways = list(
        {repr([spots[:changing], sorted(found[-1].names.items())]): (spots, found) for spots, found in ways}.values()
    )
    if len(ways) != 1 and (fault.nth is None or fault.nth >= len(ways)):
        lines = sorted({getattr(_first(spots[0]), "lineno", 0) for spots, _ in ways})
        where = f": it is in lines {', '.join(map(str, lines))}" if lines else _nearest(fault, places)
        raise Stale(_message(fault, library, f"it stands there {len(ways)} times{where}"))
    spots, found = ways[fault.nth or 0]
    names = matching.Found(found[-1].names)
    for edit, spot, own in reversed(list(zip(edits, spots, found, strict=True))[:changing]):
        names.rest = own.rest
        filled = matching.Filled(scope, names)
        code = filled.of(edit.after)
        if filled.unknown:
            unknown = ", ".join(sorted(filled.unknown))
            raise Stale(_message(fault, library, f"`after` speaks of {unknown}: say in `given` what that is there"))
        matching.put(spot, code, edit.as_expression)
    return ast.fix_missing_locations(module)


def definitions(module: ast.Module, place: str) -> Iterator[ast.AST]:
    """What has this qualified name: several definitions where a function is overloaded or a property has a setter."""
    owners: list[ast.AST] = [module]
    for part in filter(None, place.split(".")):
        inside = [child for owner in owners for child in _defined_in(owner)]
        owners = [child for child in inside if child.name == part]
    yield from owners


def _defined_in(owner: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(owner):
        if isinstance(child, matching.DEFINITIONS):
            yield child
        elif isinstance(child, ast.stmt):
            yield from _defined_in(child)


def _edit(before: str, after: str) -> _Edit:
    old, new = ast.parse(before).body, ast.parse(after).body
    return _Edit(old, new, all(len(code) == 1 and isinstance(code[0], ast.Expr) for code in (old, new)))


def _ways(edits: list[_Edit], scope: matching.Scope, found: matching.Found) -> Iterator[tuple[list, list]]:
    """All ways to read the edits with one meaning of each name: ([spot of each], [what was found, growing])."""
    if not edits:
        yield [], []
        return
    first, *others = edits
    fresh = matching.Found(found.names)
    for spot, here in matching.spots(first.before, first.as_expression, scope, fresh):
        for spots, later in _ways(others, scope, here):
            yield [spot, *spots], [here, *later]


def _first(spot: matching.Spot) -> ast.AST:
    value = getattr(spot.owner, spot.attribute)
    return value if spot.start is None else value[spot.start]


def _message(fault: Fault, library: Path, reason: str) -> str:
    lines = [
        f"stale fault: {fault.concept}",
        f"  place:       mhalib/{fault.file}, {fault.place or 'the module itself'}",
        *(f"  looked for:  {before.strip()}" for before, _ in fault.pairs),
        *(f"  given:       {given.strip()}" for given in fault.given),
        f"  but {reason}",
        *(
            f"  it stands in mhalib/{file}, {place or 'the module itself'}"
            for file, place in _elsewhere(fault, library)
        ),
        "Write the fault's code anew in tests/faults, as that place says it today, or take the fault out if what it",
        "gets wrong can no longer be got wrong.",
    ]
    return "\n".join(lines)


def _elsewhere(fault: Fault, library: Path) -> Iterator[tuple[str, str]]:
    """Other places where this code stands once."""
    if not fault.file.endswith(".py"):
        return
    edits = [_edit(*pair) for pair in fault.pairs]
    for path in sorted(library.rglob("*.py")):
        module = ast.parse(path.read_text("utf-8"))
        file = path.relative_to(library).as_posix()
        for place in all_places(module):
            if (file, place) != (fault.file, fault.place):
                scope = matching.Scope(module, list(definitions(module, place)))
                if len(list(itertools.islice(_ways(edits, scope, matching.Found()), 2))) == 1:
                    yield file, place


def all_places(owner: ast.AST, name: str = "") -> Iterator[str]:
    """The qualified names of the module ("") and of its functions, classes and methods."""
    yield name
    if not isinstance(owner, ast.FunctionDef):
        for child in _defined_in(owner):
            yield from all_places(child, f"{name}.{child.name}".strip("."))


def _nearest(fault: Fault, places: list[ast.AST]) -> str:
    """The statement of the place that looks most like the code."""
    wanted = " ".join(fault.before.split())
    best = 0.0, ""
    for place in places:
        for statement in matching.own_nodes(place):
            if not isinstance(statement, ast.stmt) or statement is place:
                continue
            for node in ast.walk(statement):
                if isinstance(node, ast.expr | ast.stmt) and not isinstance(node, ast.Constant):
                    likeness = difflib.SequenceMatcher(None, wanted, " ".join(ast.unparse(node).split())).ratio()
                    line = f"line {statement.lineno}: {ast.unparse(statement).splitlines()[0]}"
                    best = max(best, (likeness, line), key=lambda pair: (pair[0], -len(pair[1])))
    return f"; nearest to it is {best[1]}" if best[1] else ""
