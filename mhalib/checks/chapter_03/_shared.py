"""What several exercises of chapter 03 use."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def split_heads(wide: Tensor, num_heads: int) -> Tensor:
    """(B, L, H · D) → (B, H, L, D)."""
    return wide.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def join_heads(heads: Tensor) -> Tensor:
    """(B, H, L, D) → (B, L, H · D)."""
    return heads.transpose(1, 2).flatten(2)


def split_without_transpose(wide: Tensor, num_heads: int) -> Tensor:
    """The shape of `split_heads` without its transpose."""
    return wide.reshape(len(wide), num_heads, wide.shape[1], -1)


def join_without_transpose(heads: Tensor) -> Tensor:
    """The shape of `join_heads` without its transpose."""
    return heads.reshape(len(heads), heads.shape[2], -1)


def drawer(seed: int) -> Callable[..., Tensor]:
    """Normal numbers in float64, drawn one tensor after another."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)
