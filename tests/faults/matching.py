"""Snippets of code found in a function by what they mean: layout, comments and the names of local variables are free.

A snippet is one expression, or one or several statements. `...` stands for what does not matter: as an argument, for
all arguments that are not written out (`f(..., causal=causal)`); as the body of a statement, for everything under its
head (`if length: ...`).

A name in a snippet that the module, its imports or Python define has to stand there as it is written. Any other name
is a local variable: it may have another name in the function, the same one throughout, and no two may share one.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass
class Found:
    """What a snippet was found to mean: its local names here, and what each `...` stands for, in their order."""

    names: dict[str, str] = field(default_factory=dict)
    rest: list = field(default_factory=list)

    def copy(self) -> Found:
        return Found(dict(self.names), list(self.rest))


class Spot(NamedTuple):
    """Where a snippet stands: `owner.attribute`, or so many of its items from `start` on."""

    owner: ast.AST
    attribute: str
    start: int | None
    number: int


class Scope:
    """The names that a snippet may and may not rename in `places`, which are definitions or a module."""

    def __init__(self, module: ast.Module, places: list[ast.AST]):
        self.places = places
        in_place = [node for place in places for node in ast.walk(place)]
        is_function = not isinstance(places[0], ast.ClassDef | ast.Module)
        stored = set().union(*map(bound, in_place)) if is_function else set()
        if is_function:
            stored -= {place.name for place in places}
        imported = set().union(*(bound(node) for node in in_place if isinstance(node, IMPORTS)))
        self.locals = stored - imported
        self.fixed = set(dir(builtins)) | imported | set().union(*(bound(node) for node in own_nodes(module)))

    def same(self, name: str, here: str, found: Found) -> bool:
        """Can `name` in the snippet be `here` in the function?"""
        if name in self.fixed or here not in self.locals:
            return name == here and name not in found.names
        if name in found.names or here in found.names.values():
            return found.names.get(name) == here
        found.names[name] = here
        return True


def own_nodes(place: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, in their order; those of a module or class without what its definitions contain."""
    enters = not isinstance(place, ast.ClassDef | ast.Module)

    def walk(node: ast.AST) -> Iterator[ast.AST]:
        yield node
        if enters or node is place or not isinstance(node, DEFINITIONS):
            for child in ast.iter_child_nodes(node):
                yield from walk(child)

    return walk(place)


def bound(node: ast.AST) -> set[str]:
    """The names that this node gives a value to."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, IMPORTS):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.arg):
        return {node.arg}
    if isinstance(node, DEFINITIONS):
        return {node.name}
    return {node.name} if isinstance(node, ast.ExceptHandler) and node.name else set()


def is_rest(node: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def is_free_body(node: ast.AST) -> bool:
    """Is this a statement whose body is `...` alone?"""
    body = getattr(node, "body", None)
    return isinstance(body, list) and len(body) == 1 and isinstance(body[0], ast.Expr) and is_rest(body[0].value)


def spots(snippet: list[ast.stmt], as_expression: bool, scope: Scope, found: Found) -> Iterator[tuple[Spot, Found]]:
    """Each place where the snippet stands, with the names that make it so."""
    for place in scope.places:
        for owner in own_nodes(place):
            if isinstance(place, ast.ClassDef | ast.Module) and isinstance(owner, DEFINITIONS) and owner is not place:
                continue  # what is inside has a place of its own
            for attribute, value in ast.iter_fields(owner):
                yield from _spots_in(owner, attribute, value, snippet, as_expression, scope, found)


def _spots_in(owner, attribute, value, snippet, as_expression, scope, found) -> Iterator[tuple[Spot, Found]]:
    if as_expression:
        pattern = snippet[0].value
        for index, node in enumerate(value if isinstance(value, list) else [value]):
            here = found.copy()
            if isinstance(node, ast.expr) and fits(pattern, node, scope, here):
                yield Spot(owner, attribute, index if isinstance(value, list) else None, 1), here
    elif isinstance(value, list) and value and isinstance(value[0], ast.stmt):
        for start in range(len(value) - len(snippet) + 1):
            here = found.copy()
            if all(fits(*pair, scope, here) for pair in zip(snippet, value[start:], strict=False)):
                yield Spot(owner, attribute, start, len(snippet)), here


def fits(pattern: object, code: object, scope: Scope, found: Found) -> bool:
    """Is `code` what `pattern` says? Writes into `found`, also where it does not fit."""
    if isinstance(pattern, list):
        return len(pattern) == len(code) and all(fits(*pair, scope, found) for pair in zip(pattern, code, strict=True))
    if not isinstance(pattern, ast.AST):
        return type(pattern) is type(code) and pattern == code
    if isinstance(pattern, ast.Assign) and isinstance(code, ast.AnnAssign) and code.value:
        return fits(pattern.targets, [code.target], scope, found) and fits(pattern.value, code.value, scope, found)
    if type(pattern) is not type(code):
        return False
    if isinstance(pattern, ast.Call) and any(map(is_rest, pattern.args)):
        return _call_fits(pattern, code, scope, found)
    free = is_free_body(pattern)
    for name, value in ast.iter_fields(pattern):
        other = getattr(code, name)
        if free and name in ("body", "orelse"):
            continue
        if (
            isinstance(value, str)
            and name in ("id", "arg", "name")
            and not isinstance(pattern, ast.keyword | ast.alias)
        ):
            if not (isinstance(other, str) and scope.same(value, other, found)):
                return False
        elif name not in ("kind", "type_comment") and not (
            isinstance(value, list) == isinstance(other, list) and fits(value, other, scope, found)
        ):
            return False
    if free:
        found.rest.append((code.body, getattr(code, "orelse", [])))
    return True


def _call_fits(pattern: ast.Call, code: ast.Call, scope: Scope, found: Found) -> bool:
    """f(first, ..., last, name=value): the arguments that are written out are there."""
    at = next(index for index, node in enumerate(pattern.args) if is_rest(node))
    first, last = pattern.args[:at], pattern.args[at + 1 :]
    if len(code.args) < len(first) + len(last) or not fits(pattern.func, code.func, scope, found):
        return False
    stop = len(code.args) - len(last)
    by_name = {keyword.arg: keyword.value for keyword in code.keywords}
    if not (fits(first, code.args[:at], scope, found) and fits(last, code.args[stop:], scope, found)):
        return False
    for keyword in pattern.keywords:
        if keyword.arg not in by_name or not fits(keyword.value, by_name[keyword.arg], scope, found):
            return False
    found.rest.append((code.args[at:stop], code.keywords, {keyword.arg for keyword in pattern.keywords}))
    return True


class Filled(ast.NodeTransformer):
    """The code that takes the place of a snippet: with the names that the function has, and with what `...` was."""

    def __init__(self, scope: Scope, found: Found):
        self.scope, self.found = scope, found
        self.calls = [rest for rest in found.rest if len(rest) == 3]
        self.bodies = [rest for rest in found.rest if len(rest) == 2]
        self.new: set[str] = set()
        self.unknown: set[str] = set()

    def of(self, snippet: list[ast.stmt]) -> list[ast.stmt]:
        self.new |= set().union(*(bound(node) for statement in snippet for node in ast.walk(statement)))
        return [self.visit(statement) for statement in snippet]

    def _name(self, name: str) -> str:
        if name in self.found.names:
            return self.found.names[name]
        if name not in self.scope.fixed and (name not in self.new or name in self.scope.locals):
            self.unknown.add(name)
        return name

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Name):
            node.id = self._name(node.id)
        elif isinstance(node, ast.arg):
            node.arg = self._name(node.arg)
        if isinstance(node, ast.stmt) and is_free_body(node):
            free, node.body = True, []
        else:
            free = False
        super().generic_visit(node)
        if free:
            node.body, orelse = self.bodies.pop(0)
            if hasattr(node, "orelse"):
                node.orelse = orelse
        elif isinstance(node, ast.Call) and any(map(is_rest, node.args)):
            args, keywords, written = self.calls.pop(0)
            at = next(index for index, arg in enumerate(node.args) if is_rest(arg))
            node.args[at : at + 1] = args
            ours = {keyword.arg: keyword for keyword in node.keywords}
            kept = [ours.pop(k.arg, k) for k in keywords if k.arg in ours or k.arg not in written]
            node.keywords = kept + list(ours.values())
        return node


def put(spot: Spot, code: list[ast.stmt], as_expression: bool) -> None:
    """Write `code` where the snippet stood."""
    value = getattr(spot.owner, spot.attribute)
    if not as_expression:
        value[spot.start : spot.start + spot.number] = code
        if not value and spot.attribute == "body":
            value.append(ast.Pass())
    elif spot.start is None:
        setattr(spot.owner, spot.attribute, code[0].value)
    else:
        value[spot.start] = code[0].value
