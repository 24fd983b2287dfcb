"""The first code cell that all chapters and exercises share: it finds mhalib in a clone, installed, or on Colab.

    python -m tools.book.first_cell [--check] [chapter, file or folder ...]

SOURCE, the address that Colab installs from, is `source` under [tool.mhalib] in pyproject.toml. Without --check the
cell is written into both twins of each chapter where it differs; outputs stay as they are. Solutions, and the exercises
made of them, lie one folder deeper than chapters, and look for the clone there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.book import twins

TAGS = ["nbval-ignore-output"]
MARK = "# Finds mhalib:"  # how the common cell is recognised
TEMPLATE = """\
# Finds mhalib: installed, or in the clone around this notebook, or (on Colab) at SOURCE.
import importlib.util
import pathlib
import sys

SOURCE = {source}  # `source` under [tool.mhalib] in pyproject.toml
if importlib.util.find_spec("mhalib") is None:
    if pathlib.Path("{clone}/mhalib/__init__.py").exists():
        sys.path.insert(0, "{clone}")
    elif SOURCE:
        %pip install --quiet --no-deps "{{SOURCE}}"
    else:
        raise ModuleNotFoundError("mhalib is not here: set SOURCE above to its git+https address, and run again")
import mhalib

device = mhalib.setup()"""
BLOCK = re.compile(r"^(?P<fence>```+)\{code-cell\}[^\n]*\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)


def source(pyproject: Path = twins.ROOT / "pyproject.toml") -> str:
    """The address in pyproject.toml; refuses one that would not stand in a string or on pip's command line."""
    address = tomllib.loads(pyproject.read_text("utf-8"))["tool"]["mhalib"]["source"]
    if not isinstance(address, str) or re.search(r"[\s\"'\\{}$]", address):
        raise ValueError(
            f"source under [tool.mhalib] in {pyproject.name} is {address!r}: it must be a string without spaces, "
            "quotes, backslashes, braces or dollar signs, or empty while there is no public address"
        )
    return address


def clone(stem: Path) -> str:
    """The clone's root, seen from the folder of a chapter, or of a set of exercises, which has a folder of its name."""
    return "../.." if stem.parent.name == stem.name else ".."


def expected(address: str | None = None, clone: str = "..") -> str:
    """The text of the common cell, with the address of pyproject.toml unless another is given."""
    return TEMPLATE.format(source=json.dumps(source() if address is None else address), clone=clone)


def first_code_cell(notebook: NotebookNode) -> NotebookNode | None:
    return next((cell for cell in notebook.cells if cell.cell_type == "code"), None)


def findings(notebook: NotebookNode, address: str | None = None, clone: str = "..") -> list[str]:
    """What is wrong with the first code cell of a notebook; empty when it is the common one."""
    cell = first_code_cell(notebook)
    if cell is None or not cell.source.startswith(MARK):
        return ["the first code cell is not the common one: run `python -m tools.book.first_cell`"]
    if cell.source != expected(address, clone):
        return ["the first code cell differs from the common one: run `python -m tools.book.first_cell`"]
    if cell.metadata.get("tags") != TAGS:
        return [
            f"the first code cell's tags are {cell.metadata.get('tags')}, not {TAGS}: "
            "run `python -m tools.book.first_cell`"
        ]
    return []


def in_text(text: str, address: str | None = None, clone: str = "..") -> str:
    """A MyST text with the common cell: in the place of the first code cell where that is one, else before it."""
    head, ticks = "{code-cell} ipython3\n:tags: [" + ", ".join(TAGS) + "]\n\n", "```"
    block = f"{ticks}{head}{expected(address, clone)}\n{ticks}"
    match = BLOCK.search(text)
    if match is None:
        raise ValueError("there is no code cell in this text: write the chapter's first code cell before this is run")
    if MARK in match["body"]:
        return text[: match.start()] + block + text[match.end() :]
    return text[: match.start()] + block + "\n\n" + text[match.start() :]


def in_notebook(notebook: NotebookNode, address: str | None = None, clone: str = "..") -> NotebookNode:
    """The notebook with the common cell, in the same place as `in_text` puts it."""
    cell = first_code_cell(notebook)
    if cell is None:
        raise ValueError(
            "there is no code cell in this notebook: write the chapter's first code cell before this is run"
        )
    if not cell.source.startswith(MARK):
        new = nbformat.v4.new_code_cell(id="common-first-cell")
        notebook.cells.insert(notebook.cells.index(cell), new)
        cell = new
    cell.source = expected(address, clone)
    cell.metadata["tags"] = list(TAGS)
    return notebook


def write(stem: Path, address: str | None = None) -> list[str]:
    """Write the common cell into both twins of a chapter; returns the names of the files that changed."""
    written, root = [], clone(stem)
    text_path, notebook_path = stem.with_name(stem.name + ".md"), stem.with_name(stem.name + ".ipynb")
    if text_path.is_file() and findings(twins.read_text(text_path), address, root):
        text_path.write_text(in_text(text_path.read_text("utf-8"), address, root), "utf-8", newline="\n")
        written.append(text_path.name)
    if notebook_path.is_file():
        notebook = nbformat.read(notebook_path, as_version=4)
        if findings(notebook, address, root):
            text = nbformat.writes(in_notebook(notebook, address, root)) + "\n"
            notebook_path.write_text(text, "utf-8", newline="\n")
            written.append(notebook_path.name)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.book.first_cell", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="report, write nothing")
    parser.add_argument("chapters", nargs="*", help="chapters, files or folders (default: all)")
    options = parser.parse_args(arguments)
    bad = 0
    for stem in twins.stems(options.chapters):
        root = clone(stem)
        if options.check:
            notebook_path = stem.with_name(stem.name + ".ipynb")
            found = findings(nbformat.read(notebook_path, as_version=4), clone=root) if notebook_path.is_file() else []
            text_path = stem.with_name(stem.name + ".md")
            found += findings(twins.read_text(text_path), clone=root) if text_path.is_file() else []
            bad += bool(found)
            print(f"{stem.name}: {found[0] if found else 'the common first cell'}")
        else:
            written = write(stem)
            print(f"{stem.name}: {'wrote ' + ' and '.join(written) if written else 'no change'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
