"""What a process and everything that it started use: memory, processor time, number of processes."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Use:
    memory: int = 0  # bytes; what processes share is counted once
    cpu: float = 0.0  # seconds
    processes: int = 0


def of(pid: int) -> Use:
    """What `pid` and its descendants use now; nothing where they have ended."""
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return Use()
    memory, cpu = 0, 0.0
    for process in family:
        try:
            memory += _memory(process)
            times = process.cpu_times()
        except (psutil.Error, OSError):  # it ended meanwhile
            continue
        cpu += times.user + times.system
    return Use(memory, cpu, len(family))


def _memory(process: psutil.Process) -> int:
    """Its share of the memory: a page of several processes counts a part for each."""
    try:
        with open(f"/proc/{process.pid}/smaps_rollup") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Pss:")) * 1024
    except OSError:
        return process.memory_info().rss


def end(pid: int) -> None:
    """End a process that leads a group of its own, the group, and everything that it started."""
    family = []
    with contextlib.suppress(psutil.Error):
        family = psutil.Process(pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for process in family:
        with contextlib.suppress(psutil.Error):
            process.kill()
