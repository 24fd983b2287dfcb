"""Exercises of chapter 13, image patches."""

from __future__ import annotations

from mhalib.checks.chapter_13.carry import CARRY
from mhalib.checks.chapter_13.cut import CUT
from mhalib.checks.chapter_13.factorise import FACTORISE
from mhalib.checks.chapter_13.larger_patch import LARGER_PATCH
from mhalib.checks.chapter_13.repair import REPAIR

EXERCISES = (CUT, CARRY, LARGER_PATCH, REPAIR, FACTORISE)
