"""Two of the rules of `lint`: every picture says in words what it shows, and nothing is loaded from another host."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from nbformat import NotebookNode

REMOTE = re.compile(r"^(?:https?:)?//", re.IGNORECASE)
LOADED = {"img", "script", "iframe", "embed", "object", "source", "video", "audio", "link", "track"}
MARKDOWN_IMAGE = re.compile(r"!\[(?P<alt>[^\]]*)\]\(\s*<?(?P<src>[^)\s>]*)")
REMOTE_CODE = re.compile(
    r"""(?:import|from)\s*\(?\s*["']https?:|url\(\s*["']?https?:|@import\s+["']https?:|\bIFrame\(\s*["']https?:"""
)
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
FENCED = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,}).*?^ {0,3}(?P=fence)[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def _html(text: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Tags()
    parser.feed(text)
    parser.close()
    return parser.found


def without_code(text: str) -> str:
    return CODE_SPAN.sub("", FENCED.sub("", text))


def _html_outputs(notebook: NotebookNode) -> list[tuple[int, str]]:
    return [
        (number, "".join(value))
        for number, cell in enumerate(code_cells(notebook), 1)
        for output in cell.outputs
        for mime, value in output.get("data", {}).items()
        if mime in ("text/html", "image/svg+xml", "text/markdown")
    ]


def alt_texts(notebook: NotebookNode, path: Path) -> list[str]:
    """Every picture says in words what it shows."""
    found = []
    for number, cell in enumerate(code_cells(notebook), 1):
        for output in cell.outputs:
            for mime in output.get("data", {}):
                alt = output.metadata.get(mime, {}).get("alt") if mime.startswith("image/") else "not a picture"
                if not isinstance(alt, str) or not alt.strip():
                    found.append(
                        f"code cell {number} shows a picture without alt text: use mhalib.plots.show(figure, alt)"
                    )
    texts = [without_code(text) for text in prose(notebook)]
    for text in texts:
        images = MARKDOWN_IMAGE.finditer(text)
        found += [
            f"the picture {image['src']} in the text has no alt text" for image in images if not image["alt"].strip()
        ]
    for text in [*texts, *(html for _, html in _html_outputs(notebook))]:
        for tag, attributes in _html(text):
            if tag == "img" and not (attributes.get("alt") or "").strip():
                found.append(f"an <img> ({(attributes.get('src') or '')[:60]}) has no alt text")
    return found


def nothing_remote(notebook: NotebookNode, path: Path) -> list[str]:
    """Nothing is loaded from another host: no picture, script, style sheet or frame. Links for people are fine."""
    found = []
    for text in map(without_code, prose(notebook)):
        found += [
            f"the text shows a picture from {m['src']}" for m in MARKDOWN_IMAGE.finditer(text) if REMOTE.match(m["src"])
        ]
        found += [f"the text contains a <{tag}>" for tag, _ in _html(text) if tag in LOADED - {"img"}]
        found += _remote_tags(text, "the text")
    for number, html in _html_outputs(notebook):
        found += _remote_tags(html, f"the output of code cell {number}")
        found += [f"the output of code cell {number} loads {m[0]!r}" for m in REMOTE_CODE.finditer(html)]
    for number, cell in enumerate(code_cells(notebook), 1):
        if any("javascript" in mime for output in cell.outputs for mime in output.get("data", {})):
            found.append(f"the output of code cell {number} is a script")
        found += [f"code cell {number} contains {m[0]!r}" for m in REMOTE_CODE.finditer(cell.source)]
    state = json.dumps(notebook.metadata.get("widgets", {})).replace('\\"', '"')
    found += [f"a widget loads {m[0]!r}" for m in REMOTE_CODE.finditer(state)]
    return found


def _remote_tags(text: str, place: str) -> list[str]:
    return [
        f"{place} loads {attributes[name]} in a <{tag}>"
        for tag, attributes in _html(text)
        for name in ("src", "href", "data", "srcset", "poster")
        if tag in LOADED and REMOTE.match(attributes.get(name) or "")
    ]
