"""Exercises of chapter 15, channel and spatial attention."""

from __future__ import annotations

from mhalib.checks.chapter_15.excite import EXCITE
from mhalib.checks.chapter_15.matched import MATCHED
from mhalib.checks.chapter_15.refine import REFINE
from mhalib.checks.chapter_15.repair import REPAIR
from mhalib.checks.chapter_15.start import START

EXERCISES = (EXCITE, REFINE, START, MATCHED, REPAIR)
