"""Autocast, decided in one place: which dtype attention takes under it. The backends run with autocast off."""

from __future__ import annotations

import torch
from torch import Tensor

#: What torch's own attention converts under autocast: not float64.
CONVERTED = (torch.float16, torch.bfloat16, torch.float32)


def autocast_dtype(x: object) -> torch.dtype | None:
    """The dtype in which autocast wants attention on the device of `x`; None where it is off."""
    if not torch._C._is_any_autocast_enabled() or not isinstance(x, Tensor):
        return None
    device = x.device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


def convert(*tensors: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Query, key and value in the dtype of autocast, as torch's own attention takes them; a bias keeps its digits."""
    return tuple(x.to(dtype) if isinstance(x, Tensor) and x.dtype in CONVERTED else x for x in tensors)


def autocast_off(x: Tensor) -> torch.autocast:
    """Scores are not to be rounded to half precision on their way into the softmax."""
    return torch.autocast(x.device.type, enabled=False)
