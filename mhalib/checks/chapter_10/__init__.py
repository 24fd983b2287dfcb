"""Exercises of chapter 10, grouped queries and the KV cache."""

from __future__ import annotations

from mhalib.checks.chapter_10.absorb import ABSORB
from mhalib.checks.chapter_10.cache_bytes import CACHE_BYTES
from mhalib.checks.chapter_10.factors import FACTORS
from mhalib.checks.chapter_10.groups import GROUPS
from mhalib.checks.chapter_10.repair import REPAIR
from mhalib.checks.chapter_10.rolling import ROLLING

EXERCISES = (GROUPS, ROLLING, CACHE_BYTES, FACTORS, ABSORB, REPAIR)
