"""How we time: check first, warm up, then take turns, so that a drift of the clock or of the load meets all alike.

The order of the turns is shuffled: whoever comes after a peer that fills the caches starts with cold ones.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

Peer = Callable[[], Tensor]
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Goal:
    """`mhalib` against `peer`: at least `faster` times as fast, or at most `microseconds` slower."""

    peer: str
    faster: float | None = None
    microseconds: float | None = None

    def met(self, seconds: dict[str, list[float]]) -> bool:
        """By the median over the turns: two times of one turn met the same clock and the same load."""
        pairs = list(zip(seconds["mhalib"], seconds[self.peer], strict=True))
        ratio = statistics.median(theirs / ours for ours, theirs in pairs)
        behind = statistics.median(ours - theirs for ours, theirs in pairs)
        return (self.faster is not None and ratio >= self.faster) or (
            self.microseconds is not None and behind <= self.microseconds * 1e-6
        )

    def __str__(self) -> str:
        parts = []
        if self.faster is not None:
            parts.append(f"≥ {self.faster:g}× {self.peer}")
        if self.microseconds is not None:
            parts.append(f"≤ {self.microseconds:g} µs behind {self.peer}")
        return " or ".join(parts)


@dataclass
class Case:
    """One request, answered by several peers. `expected` is their common answer, at least `where` that is True.

    Those of `other` compute another one.
    """

    name: str
    peers: dict[str, Peer]
    expected: Tensor | None
    goals: list[Goal] = field(default_factory=list)
    other: tuple[str, ...] = ()
    tolerance: float = 1e-5
    where: Tensor | None = None


@dataclass
class Outcome:
    """Median seconds of each peer, whether each goal was met, and median ratios."""

    name: str
    medians: dict[str, float]
    goals: dict[str, bool]
    ratios: dict[str, float]  # of each turn's times, peer / mhalib


def measure(case: Case, rounds: int, synchronise: Callable[[], None] = lambda: None) -> Outcome:
    """Check every peer against `case.expected`, then time them in turns."""
    for name, peer in case.peers.items():
        answer = peer()
        if case.expected is not None and name not in case.other:
            error = (answer.double() - case.expected.double()).abs()
            error = (error if case.where is None else error.where(case.where, 0.0)).max().item()
            if not error <= case.tolerance:
                raise AssertionError(f"{case.name}: {name} is off by {error:.2g}; it is not timed")
    seconds: dict[str, list[float]] = {name: [] for name in case.peers}
    order, shuffle = list(case.peers), random.Random(0).shuffle
    for turn in range(rounds + 1):
        shuffle(order)
        for name in order:
            peer = case.peers[name]
            synchronise()
            start = time.perf_counter()
            peer()
            synchronise()
            if turn:  # the first turn warms up
                seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    goals = {str(goal): goal.met(seconds) for goal in case.goals}
    ours = seconds["mhalib"]
    ratios = {
        name: statistics.median(theirs / mine for theirs, mine in zip(values, ours, strict=True))
        for name, values in seconds.items()
    }
    return Outcome(case.name, medians, goals, ratios)


def table(outcome: Outcome) -> str:
    """The outcome as aligned text: milliseconds, and how many times as long as mhalib each peer takes."""
    lines = [outcome.name]
    for name, seconds in outcome.medians.items():
        lines.append(f"  {name:34}{seconds * 1e3:10.3f} ms {outcome.ratios[name]:8.2f} ×")
    lines += [f"  goal {goal}: {'met' if met else 'NOT MET'}" for goal, met in outcome.goals.items()]
    return "\n".join(lines)


def write(outcomes: list[Outcome], device: str, **notes: object) -> Path:
    """Everything, with what it ran on and with `notes`, as bench/results/<device>.json."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=RESULTS.parent)
    record = {
        "device": device,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit.stdout.strip() or None,
        "date": time.strftime("%Y-%m-%d"),
        "outcomes": [asdict(outcome) for outcome in outcomes],
    } | notes
    path = RESULTS / f"{''.join(c if c.isalnum() else '-' for c in device.lower()).strip('-')}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
