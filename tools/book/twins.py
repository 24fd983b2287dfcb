"""Text twins: each chapter is a notebook and a MyST text with the same inputs. This finds where they differ.

    python -m tools.book.twins [chapter, file or folder ...]

The text is regenerated from the notebook in memory and compared with the file; no time stamp is looked at and
nothing is written (`python -m tools.book.outputs` writes). Lines that name a version of jupytext are not compared.
"""

from __future__ import annotations

import argparse
import copy
import difflib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("chapters", "solutions")
FORMAT = {"extension": ".md", "format_name": "myst"}
CELL_BORDER = "+++"  # in MyST text this line ends a cell, so no Markdown cell can hold it
VERSION_LINES = ("format_version:", "jupytext_version:")
DIFF_LINES = 24


def text_of(notebook: NotebookNode) -> str:
    """The MyST text of a notebook."""
    return jupytext.writes(copy.deepcopy(notebook), FORMAT)


def read_text(path: Path) -> NotebookNode:
    """The notebook that a MyST text describes (no outputs)."""
    return jupytext.reads(path.read_text("utf-8"), FORMAT)


def comparable(text: str) -> list[str]:
    """The lines of a text twin, without those that name a version."""
    lines = [line for line in text.splitlines() if not line.strip().startswith(VERSION_LINES)]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def is_twin(path: Path) -> bool:
    """Whether a Markdown file is a text twin: its header names jupytext, or a notebook stands beside it."""
    if path.with_suffix(".ipynb").exists():
        return True
    lines = path.read_text("utf-8").splitlines()
    if not lines or lines[0].strip() != "---":
        return False
    header = lines[1 : lines.index("---", 1)] if "---" in lines[1:] else []
    return any(line.startswith("jupytext:") for line in header)


def stems(names: Iterable[str | Path] = (), root: Path = ROOT) -> list[Path]:
    """The chapters meant by `names`, as paths without suffix; all of them when there are no names.

    A name is a folder, either twin of a chapter, its path without suffix, or its bare name (`02_a_single_head`).
    """
    wanted = [Path(name) for name in names]
    if not wanted:
        wanted = [root / folder for folder in FOLDERS if (root / folder).is_dir()]
    found: dict[Path, None] = {}
    for name in wanted:
        if name.is_dir():
            found.update(dict.fromkeys(sorted(_in_folder(name))))
            continue
        stem = name.with_suffix("") if name.suffix in (".ipynb", ".md") else name
        places = [stem, *(root / folder / stem for folder in FOLDERS)]
        hit = next((place for place in places if _exists(place)), None)
        if hit is None:
            raise FileNotFoundError(
                f"no notebook and no text twin at {stem}: give a folder, a file, or the name of a chapter"
            )
        found[hit] = None
    return list(found)


def _exists(stem: Path) -> bool:
    return any(stem.with_name(stem.name + suffix).is_file() for suffix in (".ipynb", ".md"))


def _in_folder(folder: Path) -> set[Path]:
    def files(suffix: str) -> list[Path]:
        paths = folder.rglob(f"*{suffix}")
        return [p for p in paths if not any(part.startswith(".") for part in p.relative_to(folder).parts)]

    notebooks = {path.with_suffix("") for path in files(".ipynb")}
    return notebooks | {path.with_suffix("") for path in files(".md") if is_twin(path)}


def lossy_cells(notebook: NotebookNode) -> list[int]:
    """Positions of the Markdown cells that the text cannot hold: those with a line that begins with `+++`."""
    return [
        position
        for position, cell in enumerate(notebook.cells)
        if cell.cell_type == "markdown" and any(line.startswith(CELL_BORDER) for line in cell.source.splitlines())
    ]


def differing(stem: Path) -> list[str]:
    """Where the inputs of a pair, both files of which are there, are not the same: one finding, or none."""
    notebook_path, text_path = stem.with_name(stem.name + ".ipynb"), stem.with_name(stem.name + ".md")
    have = comparable(text_path.read_text("utf-8"))
    want = comparable(text_of(nbformat.read(notebook_path, as_version=4)))
    if have == want:
        return []
    diff = list(difflib.unified_diff(have, want, text_path.name, notebook_path.name, n=1, lineterm=""))
    if len(diff) > DIFF_LINES:
        diff = [*diff[:DIFF_LINES], f"... and {len(diff) - DIFF_LINES} lines more"]
    advice = (
        f"{text_path} and {notebook_path.name} differ. To keep what the notebook says (+), run "
        f"`python -m jupytext --to md:myst {notebook_path}`; to keep what the text says (-), run "
        f"`python -m tools.book.outputs {stem}`."
    )
    return ["\n".join([advice, *diff])]


def differences(stem: Path) -> list[str]:
    """What is wrong with one pair: one string for each finding, empty when the twins are equal."""
    notebook_path, text_path = stem.with_name(stem.name + ".ipynb"), stem.with_name(stem.name + ".md")
    if not notebook_path.is_file():
        return [f"{text_path}: its notebook {notebook_path.name} is missing: run `python -m tools.book.outputs {stem}`"]
    if not text_path.is_file():
        return [
            f"{notebook_path}: its text twin {text_path.name} is missing: save the notebook in JupyterLab with "
            f"jupytext installed, or run `jupytext --to md:myst {notebook_path}`"
        ]
    notebook = nbformat.read(notebook_path, as_version=4)
    nbformat.validate(notebook)
    findings = [
        f"{notebook_path}: cell {position} is Markdown with a line that begins with {CELL_BORDER}, which the text "
        "reads as the end of a cell: write that line differently"
        for position in lossy_cells(notebook)
    ]
    return findings + differing(stem)


def check(names: Sequence[str | Path] = (), root: Path = ROOT) -> tuple[int, list[str]]:
    """Check the pairs meant by `names`; returns how many there were and the findings."""
    chosen = stems(names, root)
    return len(chosen), [finding for stem in chosen for finding in differences(stem)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.book.twins", description=__doc__.split("\n")[0])
    parser.add_argument("paths", nargs="*", help="chapters, files or folders (default: all)")
    count, findings = check(parser.parse_args(arguments).paths)
    for finding in findings:
        print(finding)
    print(f"{count} chapters looked at, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
