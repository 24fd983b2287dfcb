"""For the tests of grading: a small course in a folder, with released assignments and submissions of every kind."""

import copy
import json
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[2]
SINGLE, TINY = "02_single_head", "tiny"
STUB = "# YOUR CODE HERE\nraise NotImplementedError()"


def tags(name, **given):
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": {**plain, "grade_id": name, **given}}


def tiny():
    """The source of an assignment with two short exercises and a text."""

    def solution(name, head, body):
        source = f"{head}\n    ### BEGIN SOLUTION\n    {body}\n    ### END SOLUTION"
        return new_code_cell(source, id=name, metadata=tags(name, solution=True))

    def check(name, exercise, answer, points):
        metadata = tags(f"check-{name}", grade=True, locked=True, points=points)
        return new_code_cell(f'checks.check("{exercise}", {answer})', id=f"check-{name}", metadata=metadata)

    text = "### BEGIN SOLUTION\nBecause of the variance.\n### END SOLUTION"
    return new_notebook(
        cells=[
            new_markdown_cell("# Two exercises", id="title"),
            new_code_cell("import math\nimport torch\nfrom mhalib import checks\nprint('ready')", id="imports"),
            new_markdown_cell("Write the head.", id="text-1"),
            solution("attend", "def attend(query, key, value):", ATTEND),
            check("attend", "02.attend", "attend", 4),
            new_markdown_cell("Differentiate.", id="text-2"),
            solution("jacobian", "def jacobian(p):", JACOBIAN),
            check("jacobian", "02.jacobian", "jacobian", 3),
            new_markdown_cell("Why is that so?", id="text-3"),
            new_markdown_cell(text, id="why", metadata=tags("why", solution=True, grade=True, points=2)),
            new_markdown_cell("The end.", id="end"),
        ],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )


ATTEND = "weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1)\n    return weights @ value, weights"
JACOBIAN = "return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]"


def released(source):
    """What students get, made by nbgrader's own steps."""
    from nbgrader.preprocessors import ClearOutput, ClearSolutions, ComputeChecksums, LockCells
    from traitlets.config import Config

    config = Config()
    config.ClearSolutions.code_stub = {"python": STUB}
    notebook, resources = copy.deepcopy(source), {"nbgrader": {}}
    for step in (LockCells, ClearSolutions, ClearOutput, ComputeChecksums):
        notebook, resources = step(config=config).preprocess(notebook, resources)
    return notebook


def solved(source):
    """The source with its answers, as a student who knows everything hands it in."""
    notebook = copy.deepcopy(source)
    for cell in notebook.cells:
        cell.source = "\n".join(line for line in cell.source.split("\n") if "### " not in line)
    return notebook


def cell(notebook, name):
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)


class Course:
    """A folder with released assignments, where submissions can be put."""

    def __init__(self, root):
        self.root = root
        self.sources = {
            SINGLE: nbformat.read(ROOT / "solutions" / SINGLE / f"{SINGLE}.ipynb", as_version=4),
            TINY: tiny(),
        }
        self.released = {name: released(source) for name, source in self.sources.items()}
        for name in self.sources:
            for folder, notebook in (("exercises", self.released[name]), ("solutions", self.sources[name])):
                (root / folder / name).mkdir(parents=True)
                nbformat.write(notebook, root / folder / name / f"{name}.ipynb")

    def blank(self, assignment):
        return copy.deepcopy(self.released[assignment])

    def solved(self, assignment):
        notebook, answers = self.blank(assignment), solved(self.sources[assignment])
        for mine, answer in zip(notebook.cells, answers.cells, strict=True):
            mine.source = answer.source
        return notebook

    def hand_in(self, student, assignment, notebook, name=None):
        folder = self.root / "grading" / "submitted" / student / assignment
        folder.mkdir(parents=True, exist_ok=True)
        data = notebook if isinstance(notebook, str) else json.dumps(notebook)
        (folder / (name or f"{assignment}.ipynb")).write_text(data, "utf-8")
