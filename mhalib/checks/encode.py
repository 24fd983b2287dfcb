"""Cases and outcomes as bytes, for a process that is not trusted: JSON and raw numbers, nothing that can be executed.

    8 bytes: length of the JSON, little-endian | JSON | the tensors' bytes, one after another

In the JSON a container is a list that begins with its kind; a tensor is ["tensor", dtype, shape, first byte].
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mhalib.checks.data import DTYPES, MAX_DEPTH, Case, Data, Outcome, plain

MAX_ENCODED = 1 << 28
HEAD = 8


def encode(outcomes: Sequence[Outcome]) -> bytes:
    """Outcomes as bytes."""
    return pack([(o.value, o.gradients, o.error, o.changed) for o in outcomes])


def decode(data: bytes) -> list[Outcome]:
    """The outcomes in `data`; ValueError for everything that `encode` does not write."""
    return [_outcome(row) for row in _rows(data, 4)]


def encode_cases(cases: Sequence[Case]) -> bytes:
    """Cases as bytes."""
    return pack([(c.name, c.arguments, c.gradients, c.construct, c.state) for c in cases])


def decode_cases(data: bytes) -> list[Case]:
    """The cases in `data`."""
    return [Case(*row) for row in _rows(data, 5)]


def pack(value: Data) -> bytes:
    """Plain data as bytes."""
    blobs: list[bytes] = []
    tree = json.dumps(_node(value, blobs)).encode()
    return b"".join([len(tree).to_bytes(HEAD, "little"), tree, *blobs])


def unpack(data: bytes) -> Data:
    """The plain data in `data`; ValueError for everything that `pack` does not write."""
    if not HEAD <= len(data) <= MAX_ENCODED:
        raise ValueError(f"data: got {len(data)} bytes; accepted are {HEAD} to {MAX_ENCODED}")
    end = HEAD + int.from_bytes(data[:HEAD], "little")
    try:
        if end > len(data):
            raise ValueError("the JSON ends after the data")
        return _value(json.loads(data[HEAD:end]), memoryview(data)[end:], MAX_DEPTH + 4)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise ValueError(f"data: not what `pack` writes ({type(error).__name__})") from error


def _node(value: Data, blobs: list[bytes]) -> Any:
    if isinstance(value, Tensor):
        start = sum(map(len, blobs))
        blobs.append(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return ["tensor", str(value.dtype).removeprefix("torch."), list(value.shape), start]
    if isinstance(value, list | tuple):
        return ["tuple" if isinstance(value, tuple) else "list", *(_node(item, blobs) for item in value)]
    if isinstance(value, dict):
        return ["dict", *([key, _node(item, blobs)] for key, item in value.items())]
    return plain(value)


def _value(node: Any, blob: memoryview, depth: int) -> Data:
    if depth < 0:
        raise ValueError("too deep")
    if isinstance(node, dict):
        raise TypeError("a container is written as a list")
    if not isinstance(node, list):
        return plain(node)
    kind, *items = node
    if kind == "tensor":
        dtype, shape, start = items
        return _tensor(dtype, shape, start, blob)
    if kind == "dict":
        return {_key(key): _value(item, blob, depth - 1) for key, item in items}
    container = {"list": list, "tuple": tuple}[kind]
    return container(_value(item, blob, depth - 1) for item in items)


def _key(key: Any) -> str | int:
    if type(key) not in (str, int):
        raise ValueError("a key is neither a string nor an integer")
    return key


def _tensor(dtype: str, shape: list[int], start: int, blob: memoryview) -> Tensor:
    if not all(type(size) is int and size >= 0 for size in [*shape, start]):
        raise ValueError("a size is no whole number")
    count = math.prod(shape)
    end = start + count * DTYPES[dtype].itemsize
    if end > len(blob):
        raise ValueError("a tensor ends after the data")
    if not count:
        return torch.empty(shape, dtype=DTYPES[dtype])
    numbers = torch.frombuffer(bytearray(blob[start:end]), dtype=torch.uint8)
    return (numbers != 0 if dtype == "bool" else numbers.view(DTYPES[dtype])).reshape(shape)


def _rows(data: bytes, width: int) -> list[tuple]:
    rows: Any = unpack(data)
    if not isinstance(rows, list) or not all(isinstance(row, tuple) and len(row) == width for row in rows):
        raise ValueError(f"data: got no list of tuples of {width}")
    return rows


def _outcome(row: tuple) -> Outcome:
    value, gradients, error, changed = row
    fine = isinstance(gradients, dict) and all(isinstance(x, Tensor) for x in gradients.values())
    fine &= error is None or isinstance(error, str)
    fine &= isinstance(changed, tuple) and all(isinstance(name, str) for name in changed)
    if not fine:
        raise ValueError("data: got no outcome; accepted is what `encode` writes")
    return Outcome(value, gradients, error, changed)
