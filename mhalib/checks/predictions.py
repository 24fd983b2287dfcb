"""Tests of single numbers in a predicted dict, for `Property.each` and `Finding.any`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mhalib.checks.data import Case, Outcome

Test: TypeAlias = Callable[[Case, Outcome, Outcome], bool]


def near(key: str, room: float) -> Test:
    """Whether the number under `key` is less than `room` away from the right one."""
    return lambda case, got, want: abs(got.value[key] - want.value[key]) < room


def between(key: str, low: float, high: float) -> Test:
    """Whether the number under `key` is from `low` to `high`, both included."""
    return lambda case, got, want: low <= got.value[key] <= high
