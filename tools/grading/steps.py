"""What is to be run of a submission, how long, and what came back."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tools.grading.assignment import GradingError


@dataclass(frozen=True)
class Cell:
    """A code cell to run; `number` is its place among the cells of the notebook."""

    number: int
    source: str


@dataclass(frozen=True)
class Question:
    """An exercise to try at this place: the name that holds the answer, and the cases as `encode_cases` writes them."""

    id: str
    answer: str
    inputs: bytes


@dataclass
class Ran:
    """What came back. `results` holds encoded outcomes; what is missing there has its reason in `stopped`."""

    outputs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    results: dict[str, bytes] = field(default_factory=dict)
    stopped: dict[int | str, str] = field(default_factory=dict)  # by number of the cell, or id of the exercise
    again: dict[str, str] = field(default_factory=dict)  # exercises that came to something on the second try


Step = Cell | Question


class NotStarted(GradingError):
    """The sandbox did not come up; no submission is to blame."""


class Deadline:
    """The end of a submission's time, or of everybody's when `stop` is set."""

    def __init__(self, seconds: float, stop: threading.Event) -> None:
        self.until, self.stop = time.monotonic() + seconds, stop

    def passed(self) -> bool:
        return self.stop.is_set() or time.monotonic() > self.until
