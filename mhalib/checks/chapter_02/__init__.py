"""Exercises of chapter 02, a single head."""

from __future__ import annotations

from mhalib.checks.chapter_02.attend import ATTEND
from mhalib.checks.chapter_02.counterexample import COUNTEREXAMPLE
from mhalib.checks.chapter_02.jacobian import JACOBIAN
from mhalib.checks.chapter_02.repair import REPAIR
from mhalib.checks.chapter_02.self_rate import SELF_RATE

EXERCISES = (ATTEND, SELF_RATE, COUNTEREXAMPLE, JACOBIAN, REPAIR)
