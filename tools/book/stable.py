"""The same notebook, byte for byte, whenever and wherever it is run: what is random or local in outputs is replaced.

Used by tools.book.outputs on a notebook that has been executed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import nbformat
from nbformat import NotebookNode

IGNORE_TAGS = frozenset({"nbval-ignore-output", "nbval-skip"})
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE_INFO = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,16}")
DISPLAY_ID = re.compile(r"(?<=display_id=)[0-9a-f]{32}")
OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n])")  # what a progress bar wrote over
NUMBERS = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")


def tags(cell: NotebookNode) -> set[str]:
    """The tags of a cell, and those that nbval reads from a comment in it."""
    found = set(cell.metadata.get("tags", []))
    comments = (line.strip().lstrip("#").strip() for line in cell.source.splitlines() if line.strip()[:1] == "#")
    found |= {comment.lower().replace("_", "-") for comment in comments if comment.startswith("NBVAL_")}
    return found


def texts(output: NotebookNode) -> dict[str, str]:
    """What an output says in text: {mime type, or name of the stream: text}. Pictures and widget views are no text."""
    if output.output_type == "stream":
        return {output.name: output.text}
    if output.output_type == "error":
        return {"error": f"{output.ename}: {output.evalue}"}
    found = {}
    for mime, value in output.data.items():
        if mime.startswith("text/"):
            found[mime] = "".join(value)
        elif mime == "application/json":
            found[mime] = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return found


def merge_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring stream outputs, stdout before stderr: in which pieces they arrive is chance."""
    merged: list[NotebookNode] = []
    run: dict[str, str] = {}

    def flush() -> None:
        for name in sorted(run, key=["stdout", "stderr"].index):
            text = OVERWRITTEN.sub("", run[name])
            merged.append(nbformat.v4.new_output("stream", name=name, text=text))
        run.clear()

    for output in outputs:
        if output.output_type == "stream":
            run[output.name] = run.get(output.name, "") + output.text
        else:
            flush()
            merged.append(output)
    flush()
    return merged


def settle(notebook: NotebookNode, name: str) -> NotebookNode:
    """An executed notebook with everything random in its outputs made a function of `name` and of their order."""
    notebook.metadata = nbformat.from_dict(
        {
            "jupytext": {"default_lexer": "ipython3"},
            "kernelspec": KERNELSPEC,
            "language_info": LANGUAGE_INFO,
            **{key: value for key, value in notebook.metadata.items() if key == "widgets"},
        }
    )
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        cell.outputs = merge_streams(cell.outputs)
        for output in cell.outputs:
            settle_output(output)
    return _rename_models(notebook, name)


def settle_output(output: NotebookNode) -> None:
    if output.output_type == "error":
        output.traceback = [f"{output.ename}: {output.evalue}"]  # the frames hold colours and this machine's paths
    elif output.output_type == "stream":
        output.text = _settle_text(output.text)
    else:
        for mime, value in output.data.items():
            if isinstance(value, str) and mime.startswith("text/"):
                output.data[mime] = _settle_text(value)


def _settle_text(text: str) -> str:
    return DISPLAY_ID.sub("ID", ADDRESS.sub("0xADDR", text))


def _rename_models(notebook: NotebookNode, name: str) -> NotebookNode:
    """Give the widget models ids derived from `name` and the order in which the notebook shows them."""
    stored = notebook.metadata.get("widgets", {}).get(STATE)
    if not stored:
        notebook.metadata.pop("widgets", None)
        return notebook
    state = stored["state"]
    for model in state.values():
        if model["model_name"] == "OutputModel":
            model["state"]["msg_id"] = ""  # the message that the widget last listened to
            model["state"]["outputs"] = _settle_captured(model["state"].get("outputs", []))
    new = {
        old: hashlib.md5(f"{name}:{index}".encode(), usedforsecurity=False).hexdigest()
        for index, old in enumerate(_order(notebook, state))
    }
    stored["state"] = {old: state[old] for old in new}
    text = json.dumps(notebook)
    pattern = re.compile("|".join(map(re.escape, new)))
    return nbformat.from_dict(json.loads(pattern.sub(lambda match: new[match[0]], text)))


def _settle_captured(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    merged = merge_streams([nbformat.from_dict(output) for output in outputs])
    for output in merged:
        settle_output(output)
    return merged


def _order(notebook: NotebookNode, state: dict[str, Any]) -> Iterator[str]:
    """Ids of the models: as the outputs show them, each followed by those it refers to, then the rest as created."""
    seen: set[str] = set()
    pattern = re.compile("|".join(map(re.escape, state)))

    def visit(model: str) -> Iterator[str]:
        if model not in seen:
            seen.add(model)
            yield model
            for other in pattern.findall(json.dumps(state[model], sort_keys=True)):
                yield from visit(other)

    shown = (
        output.data[VIEW]["model_id"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if VIEW in output.get("data", {})
    )
    for model in [*(model for model in shown if model in state), *state]:
        yield from visit(model)


def keep_ignored(new: NotebookNode, old: NotebookNode) -> None:
    """Keep the committed outputs of cells whose outputs are not compared, where only numbers in them changed.

    Such a cell prints timings or versions; without this every run would change the file. The first code cell, which
    prints the versions, is always written anew, and so is every cell that stands after a change in the code.
    """
    before = [cell for cell in old.cells if cell.cell_type == "code"]
    code = [cell for cell in new.cells if cell.cell_type == "code"]
    for number, (cell, past) in enumerate(zip(code, before, strict=False)):
        if cell.source != past.source:
            return
        if number and tags(cell) & IGNORE_TAGS and past.outputs and _shape(past) == _shape(cell):
            cell.outputs = past.outputs


def _shape(cell: NotebookNode) -> list[Any]:
    """The outputs of a cell with every number replaced; a widget view keeps its model id, since the state is new."""
    return [
        (
            output.output_type,
            sorted(output.get("data", {})),
            output.get("data", {}).get(VIEW),
            {key: NUMBERS.sub("N", text) for key, text in texts(output).items()},
        )
        for output in cell.outputs
    ]
