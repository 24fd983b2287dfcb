"""What goes into an answer and what comes out of it, as plain data: tensors, numbers, strings and containers of them.

Nothing here knows an exercise: this file, `run.py` and `encode.py` are all that a process needs that runs answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

#: Sequences are lists and tuples, mappings are dicts with keys of str and int.
Data: TypeAlias = "Tensor | bool | int | float | str | Sequence[Data] | Mapping[Any, Data] | None"

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}
MAX_BYTES = 1 << 24  # of one value, tensors and text together
MAX_DEPTH = 16  # containers in containers
MAX_INT = 1 << 63


@dataclass(frozen=True)
class Case:
    """One input. The answer is called as `answer(**arguments)`.

    Where the answer is a class, `construct` holds the arguments of its constructor and `state` the tensors to load
    with `load_state_dict`; the module, in evaluation mode, is then called with `arguments`.
    `gradients` names the arguments by which the output is to be differentiated too.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    gradients: tuple[str, ...] = ()
    construct: dict[str, Any] | None = None
    state: dict[str, Tensor] | None = None


@dataclass(frozen=True)
class Outcome:
    """What an answer did with one case: a value, or an error as "ValueError: its message"."""

    value: Any = None  # Data: what it is follows from the exercise
    gradients: dict[str, Tensor] = field(default_factory=dict)
    error: str | None = None
    changed: tuple[str, ...] = ()  # arguments that the answer wrote into


def plain(value: object) -> Data:
    """A copy of `value` as plain data, on the CPU and without history; TypeError or ValueError where it is none."""
    return _plain(value, [MAX_BYTES], MAX_DEPTH)


def plain_tensor(tensor: Tensor) -> Tensor:
    """As `plain`, of a tensor."""
    return _plain_tensor(tensor, [MAX_BYTES])


def _plain(value: object, budget: list[int], depth: int) -> Data:
    if depth < 0:
        raise ValueError(f"returned containers in more than {MAX_DEPTH} containers")
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        _spend(budget, value.nbytes)
        value = torch.from_numpy(value.copy())
    if isinstance(value, Tensor):
        return _plain_tensor(value, budget)
    _spend(budget, len(value) + 8 if isinstance(value, str) else 8)
    if value is None or value is True or value is False or isinstance(value, float | str):
        return value
    if isinstance(value, int):
        if abs(value) >= MAX_INT:
            raise ValueError("returned an integer of more than 63 bits")
        return value
    if isinstance(value, list | tuple):
        items = [_plain(item, budget, depth - 1) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        if not all(type(key) in (str, int) for key in value):
            raise TypeError("returned a dict whose keys are not all strings or integers")
        return {_plain(key, budget, 0): _plain(item, budget, depth - 1) for key, item in value.items()}
    raise TypeError(
        f"returned a {type(value).__name__}, which is not a tensor, a number, a string, or a list, tuple or dict of "
        "them"
    )


def _plain_tensor(tensor: Tensor, budget: list[int]) -> Tensor:
    if tensor.layout != torch.strided or tensor.dtype not in DTYPES.values():
        raise TypeError(
            f"returned a tensor of {tensor.dtype} ({tensor.layout}); accepted are {', '.join(DTYPES)}, dense"
        )
    _spend(budget, tensor.numel() * tensor.element_size())  # before the copy: an expanded tensor may be far larger
    return torch.Tensor(tensor.detach().cpu()).clone(memory_format=torch.contiguous_format).resolve_neg()


def _spend(budget: list[int], size: int) -> None:
    budget[0] -= size
    if budget[0] < 0:
        raise ValueError(f"returned more than {MAX_BYTES // 2**20} MiB")
