"""What is asked of a chapter beside running: each rule looks at a notebook and returns what it found, in words.

    python -m tools.book.lint [chapter, file or folder ...]

`tests/book/test_lint.py` runs the same rules.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
from nbformat import NotebookNode

from tools.book import first_cell, stable, twins
from tools.book.markup import (
    CODE_SPAN,
    FENCED,
    MARKDOWN_IMAGE,
    alt_texts,
    code_cells,
    nothing_remote,
    prose,
    without_code,
)

MAX_BYTES = 1_000_000
MAX_LINES, MAX_MEDIAN = 40, 6
MIN_COMPARED = 0.9  # of the cells with text output
MIN_ASSERTED = 0.5  # of the cells that print numbers: an assert in the cell, or in the next code cell
HEADINGS = ("Something to play with", "Where it goes wrong", "Say it right", "Summary", "Terms", "Sources")
START_HERE = "00"  # explains the course itself, so the parts of a chapter are not asked of it
MARKDOWN_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(\s*<?(?P<target>[^)\s>]+)")
LOCAL_PATH = re.compile(r"site-packages|/home/|/Users/|/root/|[A-Z]:\\\\?Users|/tmp/|/var/folders/")


def executed(notebook: NotebookNode, path: Path) -> list[str]:
    """Execution counts 1 … n: run once, from top to bottom, nothing left out."""
    counts = [cell.execution_count for cell in code_cells(notebook)]
    if any(not cell.source.strip() for cell in code_cells(notebook)):
        return ["there is an empty code cell: remove it"]
    if not counts or counts != list(range(1, len(counts) + 1)):
        return [f"execution counts are {counts}, not 1 to {len(counts)}: run `python -m tools.book.outputs`"]
    return []


def no_errors(notebook: NotebookNode, path: Path) -> list[str]:
    """No cell shows an error, unless it is tagged raises-exception."""
    return [
        f"code cell {number} shows {output.ename}: {output.evalue}"
        for number, cell in enumerate(code_cells(notebook), 1)
        if "raises-exception" not in stable.tags(cell)
        for output in cell.outputs
        if output.output_type == "error"
    ]


def small(notebook: NotebookNode, path: Path) -> list[str]:
    """The notebook file is below 1 MB."""
    size = path.stat().st_size
    return [f"{path.name} has {size:,} bytes, the limit is {MAX_BYTES:,}"] if size >= MAX_BYTES else []


def short_cells(notebook: NotebookNode, path: Path) -> list[str]:
    """No code cell over 40 lines, the median at most 6 (blank lines and comments count)."""
    lengths = [len(cell.source.splitlines()) for cell in code_cells(notebook)]
    found = [
        f"code cell {number} has {length} lines, the limit is {MAX_LINES}: move a function into mhalib"
        for number, length in enumerate(lengths, 1)
        if length > MAX_LINES
    ]
    if lengths and statistics.median(lengths) > MAX_MEDIAN:
        found.append(f"the median code cell has {statistics.median(lengths)} lines, the limit is {MAX_MEDIAN}")
    return found


def compared(notebook: NotebookNode, path: Path) -> list[str]:
    """At least 90 % of the cells that say something in text are compared by nbval, all but one in a short notebook."""
    speaking = [cell for cell in code_cells(notebook) if any(stable.texts(output) for output in cell.outputs)]
    ignored = [cell for cell in speaking if stable.tags(cell) & stable.IGNORE_TAGS]
    if len(ignored) > max(1, (1 - MIN_COMPARED) * len(speaking) + 1e-9):  # the common first cell is always one
        return [f"{len(ignored)} of {len(speaking)} cells with text output are not compared; at most 10 % may be so"]
    return []


def no_directives(notebook: NotebookNode, path: Path) -> list[str]:
    """No MyST directive, role or label: GitHub and Colab show them raw."""
    found = []
    for text in prose(notebook):
        found += [
            f"the text has the directive {m[0]}" for m in re.finditer(r"^ *(?:`{3,}|~{3,}) *\{[^}]*\}", text, re.M)
        ]
        bare = FENCED.sub("", text)
        found += [f"the text has a line {m[0]}" for m in re.finditer(r"^ *:{3,}.*$", bare, re.M)]
        found += [f"the text has the label {m[0]}" for m in re.finditer(r"^\([^)\s]+\)=\s*$", bare, re.M)]
        for span in CODE_SPAN.finditer(bare):
            role = re.search(r"(?<!\S)\{[a-z][\w:-]*\}$", bare[: span.start()])
            found += [f"the text has the role {role[0]}{span[0]}"] if role else []
    return found


def common_first_cell(notebook: NotebookNode, path: Path) -> list[str]:
    """The first code cell is the one that all chapters and exercises share."""
    return first_cell.findings(notebook, clone=first_cell.clone(path.with_suffix("")))


def parts(notebook: NotebookNode, path: Path) -> list[str]:
    """The parts of a chapter: numbered title, question, time needed, the closing sections, terms in two languages."""
    number = path.name[:2]
    texts = prose(notebook)
    opening = texts[0] if texts and notebook.cells[0].cell_type == "markdown" else ""
    found = []
    if not re.match(rf"# {number} · \S", opening):
        found.append(f"the first cell does not begin with the title '# {number} · …'")
    if number == START_HERE:
        return found
    if "?" not in opening:
        found.append("the first cell asks no question")
    found += [f"the first cell does not say how many {w} it takes" for w in ("minutes", "seconds") if w not in opening]
    bodies = _sections(texts)
    found += [f"there is no section '## {heading}'" for heading in HEADINGS if heading not in bodies]
    found += [f"the section '## {heading}' is empty" for heading in HEADINGS if not bodies.get(heading, "-").strip()]
    terms = bodies.get("Terms")
    if terms and not re.search(r"glossary\.md#", terms):
        found.append("the terms are not linked to the glossary (../site/glossary.md#…)")
    if terms and not re.search(r"[가-힣]", terms):
        found.append("the terms are not given in Korean")
    return found


def _sections(texts: list[str]) -> dict[str, str]:
    """{heading: text up to the next heading of the same level}."""
    pieces = re.split(r"^## +(.+?) *$", FENCED.sub("", "\n\n".join(texts)), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def asserted(notebook: NotebookNode, path: Path) -> list[str]:
    """At least half of the cells that print numbers are followed by an assert, in the cell or in the next."""
    cells = code_cells(notebook)
    checked = [re.search(r"^\s*assert\b|assert_close\(", cell.source, re.MULTILINE) is not None for cell in cells]
    printing = [
        index
        for index, cell in enumerate(cells)
        if not stable.tags(cell) & stable.IGNORE_TAGS
        and any(re.search(r"\d", text) for output in cell.outputs for text in stable.texts(output).values())
    ]
    proven = [index for index in printing if any(checked[index : index + 2])]
    if len(proven) < MIN_ASSERTED * len(printing):
        bare = ", ".join(str(index + 1) for index in printing if index not in proven)
        return [
            f"only {len(proven)} of {len(printing)} cells that print numbers have an assert there or next; not: {bare}"
        ]
    return []


def links(notebook: NotebookNode, path: Path) -> list[str]:
    """Links and pictures inside the course lead somewhere."""
    found = []
    for text in map(without_code, prose(notebook)):
        targets = [m["target"] for m in MARKDOWN_LINK.finditer(text)] + [
            m["src"] for m in MARKDOWN_IMAGE.finditer(text)
        ]
        for target in targets:
            parsed = urlsplit(target)
            if parsed.scheme or parsed.netloc:
                continue
            file = path.parent / unquote(parsed.path) if parsed.path else path
            if not file.exists():
                found.append(f"the link {target} leads to no file")
            elif file.suffix == ".md" and parsed.fragment and parsed.fragment not in _anchors(file):
                found.append(f"the link {target} leads to no heading or anchor of {file.name}")
    return found


def _anchors(file: Path) -> set[str]:
    text = file.read_text("utf-8")
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"""\bid=["']([^"']+)["']""", text)) | set(re.findall(r"^\(([^)]+)\)=", text, re.M))


def widgets_stored(notebook: NotebookNode, path: Path) -> list[str]:
    """The widgets that are shown are stored, so that they show without a kernel, and the store is one that renders."""
    stored = notebook.metadata.get("widgets")
    if stored is not None:
        entry = stored.get(stable.STATE)
        if not isinstance(entry, dict) or not isinstance(entry.get("state"), dict) or not entry["state"]:
            return [f"metadata.widgets holds no 'state' under {stable.STATE}: nbconvert and GitHub fail on it"]
    known = stored[stable.STATE]["state"] if stored else {}
    return [
        f"code cell {number} shows a widget whose state is not in the notebook: run `python -m tools.book.outputs`"
        for number, cell in enumerate(code_cells(notebook), 1)
        for output in cell.outputs
        if stable.VIEW in output.get("data", {}) and output.data[stable.VIEW]["model_id"] not in known
    ]


def no_local_paths(notebook: NotebookNode, path: Path) -> list[str]:
    """No output names a folder of the machine that it was made on."""
    return [
        f"the output of code cell {number} names a folder of this machine: …{text[m.start() : m.end() + 40]!r}"
        for number, cell in enumerate(code_cells(notebook), 1)
        for output in cell.outputs
        for text in stable.texts(output).values()
        for m in [LOCAL_PATH.search(text)]
        if m
    ]


RULES: tuple[Callable[[NotebookNode, Path], list[str]], ...] = (
    executed,
    no_errors,
    small,
    short_cells,
    alt_texts,
    nothing_remote,
    compared,
    no_directives,
    common_first_cell,
    parts,
    asserted,
    links,
    widgets_stored,
    no_local_paths,
)
CHAPTERS_ONLY = (parts, asserted)  # a set of exercises has other parts, and its numbers are judged by `mhalib.checks`


def asked_of(path: Path) -> list[Callable[[NotebookNode, Path], list[str]]]:
    """The rules for a notebook: all of them, or for a set of exercises, which has a folder of its name, most."""
    return [rule for rule in RULES if path.parent.name != path.stem or rule not in CHAPTERS_ONLY]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.book.lint", description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="*", help="chapters, files or folders (default: all)")
    options = parser.parse_args(arguments)
    bad = 0
    for stem in twins.stems(options.chapters):
        path = stem.with_name(stem.name + ".ipynb")
        if not path.is_file():
            bad += 1
            print(f"{path.name}: not there yet: run `python -m tools.book.outputs {stem.name}`")
            continue
        notebook = nbformat.read(path, as_version=4)
        found = [f"{rule.__name__}: {finding}" for rule in asked_of(path) for finding in rule(notebook, path)]
        bad += bool(found)
        print("\n  ".join([f"{path.name}: {len(found)} findings", *found]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
