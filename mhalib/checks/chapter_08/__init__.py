"""Exercises of chapter 08, flash tiling."""

from __future__ import annotations

from mhalib.checks.chapter_08.backward import BACKWARD
from mhalib.checks.chapter_08.merge import MERGE
from mhalib.checks.chapter_08.moved import MOVED
from mhalib.checks.chapter_08.repair import REPAIR
from mhalib.checks.chapter_08.step import STEP

EXERCISES = (STEP, MERGE, BACKWARD, REPAIR, MOVED)
