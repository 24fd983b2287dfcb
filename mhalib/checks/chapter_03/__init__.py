"""Exercises of chapter 03, many heads."""

from __future__ import annotations

from mhalib.checks.chapter_03.multi_head import MULTI_HEAD
from mhalib.checks.chapter_03.ranks import RANKS
from mhalib.checks.chapter_03.repair import REPAIR
from mhalib.checks.chapter_03.torch_weights import TORCH_WEIGHTS
from mhalib.checks.chapter_03.without_heads import WITHOUT_HEADS

EXERCISES = (MULTI_HEAD, WITHOUT_HEADS, TORCH_WEIGHTS, REPAIR, RANKS)
