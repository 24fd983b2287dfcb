"""What several exercises of chapter 04 use."""

from __future__ import annotations

from mhalib.checks import Outcome


def same_value(got: Outcome, want: Outcome) -> bool:
    """Whether both are the same number, exactly."""
    return got.value == want.value
