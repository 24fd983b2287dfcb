"""Exercises of chapter 14, attention maps and what they cannot tell."""

from __future__ import annotations

from mhalib.checks.chapter_14.cdam import CDAM
from mhalib.checks.chapter_14.deletion import DELETION
from mhalib.checks.chapter_14.flow import FLOW
from mhalib.checks.chapter_14.repair import REPAIR
from mhalib.checks.chapter_14.rollout import ROLLOUT

EXERCISES = (FLOW, ROLLOUT, REPAIR, CDAM, DELETION)
