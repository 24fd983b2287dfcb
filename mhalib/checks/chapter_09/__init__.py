"""Exercises of chapter 09, GPU kernels. They need no triton: addresses, masks and tiles are arithmetic."""

from __future__ import annotations

from mhalib.checks.chapter_09.gate import GATE
from mhalib.checks.chapter_09.least_time import LEAST_TIME
from mhalib.checks.chapter_09.repair import REPAIR
from mhalib.checks.chapter_09.stall import STALL
from mhalib.checks.chapter_09.tile import TILE
from mhalib.checks.chapter_09.visits import VISITS

EXERCISES = (TILE, VISITS, STALL, GATE, LEAST_TIME, REPAIR)
