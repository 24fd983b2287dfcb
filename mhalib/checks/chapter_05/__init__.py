"""Exercises of chapter 05, masks."""

from __future__ import annotations

from mhalib.checks.chapter_05.dead_rows import DEAD_ROWS
from mhalib.checks.chapter_05.outside import OUTSIDE
from mhalib.checks.chapter_05.pairs import PAIRS
from mhalib.checks.chapter_05.repair import REPAIR
from mhalib.checks.chapter_05.translate import TRANSLATE

EXERCISES = (TRANSLATE, DEAD_ROWS, PAIRS, REPAIR, OUTSIDE)
