"""Arguments are checked in mhalib/arguments.py and nowhere else: what a flag, a number, an optional package is."""

import ast
from pathlib import Path

import pytest

import mhalib

LIBRARY = Path(mhalib.__file__).parent
FILES = [
    path
    for path in sorted(LIBRARY.rglob("*.py"))
    if path != LIBRARY / "arguments.py" and not path.relative_to(LIBRARY).as_posix().startswith("checks/chapter_")
]


def named(node):
    """The names that stand in an expression."""
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def own_checks(source):
    """Line and kind of each check that belongs into arguments.py."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and named(node.func) == {"isinstance"}:
            if any("bool" in named(kind) for kind in node.args[1:]):
                found.append((node.lineno, "isinstance(…, bool)"))
        elif isinstance(node, ast.Raise) and node.exc and named(node.exc) & {"ImportError", "ModuleNotFoundError"}:
            found.append((node.lineno, "raise ImportError"))
    return sorted(found)


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(LIBRARY)) for path in FILES])
def test_no_other_file_checks_flags_and_packages(path):
    assert own_checks(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("isinstance(x, bool)", [(1, "isinstance(…, bool)")]),
        ("not isinstance(x.y, (int, bool))", [(1, "isinstance(…, bool)")]),
        ("isinstance(x, int | bool)", [(1, "isinstance(…, bool)")]),
        ("\nraise ImportError", [(2, "raise ImportError")]),
        ("raise ModuleNotFoundError('x') from None", [(1, "raise ImportError")]),
        ("isinstance(x, int)\nraise ValueError(bool(x))\ntry: pass\nexcept ImportError: raise", []),
    ],
)
def test_a_check_is_found_in_every_form(source, found):
    assert own_checks(source) == found
