"""Positions that are added to the tokens: sines and cosines."""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.arguments import check_whole


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """Fixed position vectors: channel 2i is sin(position / 10000^(2i / d_model)), channel 2i + 1 its cosine.

    Returns:
        float32 (length, d_model); `d_model` is even.

    Source: Vaswani et al. 2017, §3.5.
    """
    check_whole(0, length=length)
    check_whole(d_model=d_model)
    if d_model % 2:
        raise ValueError(f"d_model: got {d_model}; accepted is an even number, a sine and a cosine share a pair")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    angle = position * 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()
