"""What several exercises of chapter 10 use."""

from __future__ import annotations

import torch
from torch import Tensor


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    """Normal numbers in float64."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)
