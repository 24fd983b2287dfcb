"""The wrong and right answers to the exercises, from tests/answers/NN_name/exercise.py.

Such a file is a notebook in jupytext's percent format, with one answer in each cell. The line that begins a cell says
what it is: `# %% wrong: 32 bits` or `# %% right: loop`.
"""

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "answers"
KINDS = ("wrong", "right")


class Answer(NamedTuple):
    """One answer: `source` is its cell, which begins in line `line` of `path`, counted from 1."""

    path: Path
    kind: str
    name: str
    line: int
    source: str

    @property
    def exercise(self) -> str:
        """The exercise's id, such as "02.attend"."""
        return f"{self.path.parent.name[:2]}.{self.path.stem}"

    @property
    def label(self) -> str:
        """What a test about it is called, such as "02_single_head/attend/wrong_no_scale"."""
        return f"{self.path.parent.name}/{self.path.stem}/{self.kind}_{self.name.replace(' ', '_')}"

    @property
    def finding(self) -> str | None:
        """The mistake that a wrong answer makes, by the first line of its cell; None for a right answer."""
        match = re.match(r"# finding: (.+)\n", self.source)
        return match and match[1]

    @property
    def author(self) -> str:
        """The comment that says whose answer it is."""
        return self.source.splitlines()[1 if self.finding else 0]

    def value(self, name: str) -> object:
        """What the cell defines as `name`, run without the other cells; a traceback shows the file's own lines."""
        namespace = {}
        exec(compile("\n" * (self.line - 1) + self.source, str(self.path), "exec"), namespace)
        return namespace[name]


def read(path: Path) -> list[Answer]:
    """The answers in one file, in its order; ValueError for what is not in the form that is described above."""
    found: list[Answer] = []
    parts = re.split(r"^(# %%.*)\n", path.read_text("utf-8"), flags=re.MULTILINE)
    if len(parts) == 1 or parts[0].strip():
        raise ValueError(f"{path}: got {parts[0][:40]!r} first; accepted is a line such as '# %% wrong: no scale'")
    line = parts[0].count("\n") + 1
    for marker, text in zip(parts[1::2], parts[2::2], strict=True):
        match = re.fullmatch(r"# %% (\w+): (\S+(?: \S+)*)", marker)
        if not match or match[1] not in KINDS:
            raise ValueError(f"{path}:{line}: got {marker!r}; accepted are '# %% wrong: name' and '# %% right: name'")
        if not text.strip():
            raise ValueError(f"{path}:{line}: got no code under {marker!r}; accepted is an answer")
        if any(match.groups() == (one.kind, one.name) for one in found):
            raise ValueError(f"{path}:{line}: got {marker!r} again; accepted is another name")
        found.append(Answer(path, *match.groups(), line + 1, text.rstrip("\n") + "\n"))
        line += 1 + text.count("\n")
    return found


def all_answers(folder: Path = FOLDER) -> list[Answer]:
    """Every answer of every exercise."""
    return [answer for path in sorted(folder.glob("*/*.py")) for answer in read(path)]
