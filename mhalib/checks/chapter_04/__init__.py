"""Exercises of chapter 04, counting."""

from __future__ import annotations

from mhalib.checks.chapter_04.crossover import CROSSOVER
from mhalib.checks.chapter_04.decoder_parameters import DECODER_PARAMETERS
from mhalib.checks.chapter_04.repair import REPAIR
from mhalib.checks.chapter_04.training_bytes import TRAINING_BYTES
from mhalib.checks.chapter_04.training_flops import TRAINING_FLOPS

EXERCISES = (DECODER_PARAMETERS, TRAINING_FLOPS, CROSSOVER, REPAIR, TRAINING_BYTES)
