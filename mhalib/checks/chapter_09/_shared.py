"""What several exercises of chapter 09 use."""

from __future__ import annotations

import torch


def pick(generator: torch.Generator, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    return int(torch.randint(low, high + 1, (), generator=generator))
