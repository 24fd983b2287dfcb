"""The small changes that `mutants` makes: another comparison, a number off by one, an argument left out and others."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

SWAPS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
#: What is not changed: words for people, and what only a checker of types reads.
LEFT_ALONE = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)
ANNOTATIONS = ("annotation", "returns", "decorator_list", "type_params")


def changes(module: ast.Module) -> Iterator[tuple[ast.stmt, ast.AST, str, int | None, ast.AST | None]]:
    """All small changes in a fixed order: (statement, owner, field, index, what comes there; None for nothing)."""
    yield from _below(module, None)


def _below(owner: ast.AST, statement: ast.stmt | None) -> Iterator[tuple]:
    for field, value in ast.iter_fields(owner):
        if field in ANNOTATIONS:
            continue
        for index, node in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(node, ast.AST) or isinstance(node, LEFT_ALONE) or _is_docstring(node):
                continue
            inside = node if isinstance(node, ast.stmt) else statement
            at = index if isinstance(value, list) else None
            for new in _variants(node):
                yield inside, owner, field, at, new
            yield from _below(node, inside)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _with(node: ast.AST, **fields) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _variants(node: ast.AST) -> Iterator[ast.AST | None]:
    """What may stand in the place of this node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield _with(node, ops=[SWAPS[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        yield _with(node, op=SWAPS[type(node.op)]())
        if isinstance(node, ast.BoolOp):
            yield _with(node, values=node.values[1:]) if len(node.values) > 2 else node.values[1]
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)
    elif isinstance(node, ast.Call):
        for k in node.keywords:
            if k.arg:
                yield _with(node, keywords=[other for other in node.keywords if other is not k])
        if len(node.args) > 1 and ast.dump(node.args[0]) != ast.dump(node.args[1]):
            yield _with(node, args=[node.args[1], node.args[0], *node.args[2:]])
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.If):
        yield _with(node, test=ast.Constant(False))
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield _with(node, value=ast.Constant(None))
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield None
