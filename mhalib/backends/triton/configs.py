"""Tile sizes, warps and pipeline stages of each kernel, by chip, dtype and head size: written down, not searched for.

The rows were chosen by compiling them ahead of time (see `ahead_of_time`), none by a clock: they fit the chip's shared
memory without spilling much. Of the forward tiles that do, the one with most work between two barriers is taken: on
Hopper 128 × 128 at head sizes up to 128, which waits and rescales half as often as 128 × 64.
`python -m mhalib.backends.triton.ahead_of_time` shows what the compiler makes of them. Nothing here imports triton.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

MAX_HEAD_DIM = 256
LOG2_E = 1.4426950408889634


class Config(NamedTuple):
    """A tile of `block_q` queries by `block_k` keys, and how a program is run: `warps` of 32 threads, and how many
    tiles are on their way from memory at a time."""

    block_q: int
    block_k: int
    warps: int
    stages: int

    def launch(self) -> dict[str, int | bool]:
        """The keyword arguments of a kernel's launch. Fused multiply-adds are asked for: triton's default changes."""
        return {
            "BLOCK_Q": self.block_q,
            "BLOCK_K": self.block_k,
            "num_warps": self.warps,
            "num_stages": self.stages,
            "enable_fp_fusion": True,
        }


#: Small tiles for the interpreter, whose cost is per tile.
INTERPRETER = Config(32, 32, 4, 1)

# For head sizes up to 64, 128 and 256: (queries, keys, warps, stages). Chips are named by compute capability, 90 = 9.0.
_HALF = {
    75: {  # Turing: T4
        "forward": ((64, 32, 8, 1), (32, 32, 8, 1), (16, 16, 8, 1)),
        "key_value": ((16, 32, 4, 1), (16, 16, 8, 1), (16, 16, 8, 1)),
        "query": ((32, 32, 8, 1), (32, 32, 8, 1), (16, 16, 8, 1)),
        "decode": ((16, 32, 4, 1), (16, 32, 4, 1), (16, 16, 4, 1)),
    },
    80: {  # Ampere, 163 KiB: A100
        "forward": ((128, 64, 4, 3), (128, 64, 8, 3), (64, 64, 8, 2)),
        "key_value": ((64, 128, 8, 2), (64, 64, 8, 2), (32, 32, 8, 1)),
        "query": ((128, 64, 8, 3), (64, 64, 4, 2), (64, 32, 8, 2)),
        "decode": ((16, 64, 4, 3), (16, 64, 4, 3), (16, 32, 4, 2)),
    },
    89: {  # Ampere and Ada, 99 KiB: A10, L4, RTX 30 and 40
        "forward": ((128, 64, 4, 3), (64, 64, 4, 2), (64, 32, 4, 2)),
        "key_value": ((64, 128, 8, 2), (64, 64, 8, 2), (32, 32, 8, 1)),
        "query": ((128, 64, 8, 3), (64, 64, 4, 2), (64, 32, 8, 1)),
        "decode": ((16, 64, 4, 3), (16, 64, 4, 3), (16, 32, 4, 2)),
    },
    90: {  # Hopper: H100, H200
        "forward": ((128, 128, 8, 3), (128, 128, 8, 2), (64, 64, 8, 2)),
        "key_value": ((64, 128, 8, 3), (32, 128, 8, 2), (32, 32, 8, 1)),
        "query": ((128, 64, 8, 3), (128, 64, 8, 2), (64, 32, 8, 2)),
        "decode": ((16, 64, 4, 3), (16, 64, 4, 3), (16, 32, 4, 2)),
    },
    100: {  # Blackwell, data centre: B200
        "forward": ((128, 128, 8, 3), (128, 64, 8, 3), (64, 64, 8, 2)),
        "key_value": ((32, 128, 8, 2), (32, 64, 8, 1), (32, 32, 8, 1)),
        "query": ((128, 64, 8, 3), (128, 64, 8, 2), (64, 32, 8, 2)),
        "decode": ((16, 64, 4, 3), (16, 64, 4, 3), (16, 32, 4, 2)),
    },
    120: {  # Blackwell, 99 KiB: RTX 50
        "forward": ((64, 64, 4, 3), (64, 64, 4, 2), (64, 32, 8, 2)),
        "key_value": ((64, 64, 8, 2), (32, 64, 8, 2), (32, 32, 8, 1)),
        "query": ((128, 64, 8, 3), (64, 64, 4, 2), (64, 32, 8, 1)),
        "decode": ((16, 64, 4, 3), (16, 64, 4, 3), (16, 32, 4, 2)),
    },
}
# float32 as three TF32 products (chips from 8.0 on). Both parts of every number are held in registers, so that the
# tiles are small; they are the same everywhere, and fit 99 KiB.
_TF32X3 = {
    "forward": ((128, 32, 8, 2), (32, 32, 8, 1), (16, 32, 8, 1)),
    "key_value": ((32, 32, 4, 1), (16, 16, 8, 1), (16, 16, 8, 1)),
    "query": ((32, 32, 4, 1), (16, 32, 4, 1), (16, 16, 8, 1)),
    "decode": ((16, 32, 4, 2), (16, 32, 4, 2), (16, 16, 8, 1)),
}
# float32 without a matrix instruction: small tiles, held in registers.
_FLOAT32 = {
    "forward": ((32, 32, 4, 2), (32, 32, 8, 1), (16, 32, 8, 1)),
    "key_value": ((32, 32, 8, 1), (16, 32, 8, 1), (16, 16, 8, 1)),
    "query": ((32, 32, 4, 2), (32, 32, 8, 1), (16, 16, 8, 1)),
    "decode": ((16, 32, 4, 2), (16, 32, 8, 1), (16, 16, 8, 1)),
}
# Rows on which nothing is multiplied: the sum for delta, and (by index only) the joining of parts.
_ROWS = {"delta": ((128, 1, 4, 1), (64, 1, 4, 1), (32, 1, 4, 1)), "combine": ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 2, 1))}


def look_up(kernel: str, chip: int, dtype: torch.dtype, head_dim: int) -> Config:
    """The row for a chip (80 for compute capability 8.0), dtype and head size; a chip that is not listed takes that of
    the nearest one below it with no more shared memory."""
    size = 0 if head_dim <= 64 else 1 if head_dim <= 128 else 2
    if kernel in _ROWS:
        return Config(*_ROWS[kernel][size])
    if dtype == torch.float32:
        return Config(*(_TF32X3 if precision_of(chip, dtype) == "tf32x3" else _FLOAT32)[kernel][size])
    chip = {86: 89, 87: 80}.get(chip, chip)
    return Config(*_HALF[max(listed for listed in _HALF if listed <= chip)][kernel][size])


def too_large(chip: int, dtype: torch.dtype, head_dim: int) -> bool:
    """Does even the smallest tile not fit? Four tiles of 16 rows are held at once, and Turing has 64 KiB for them."""
    return chip < 80 and dtype == torch.float32 and head_dim > 128


#: Parts at most that the keys of a head are split into in decoding, and how many of them are read at a time.
MAX_SPLITS = 64
CHUNK = 8
#: Rows of a decoding tile at most: queries times the query heads that share a key head.
DECODE_ROWS = 64


def sizes(dim: int, dv: int) -> dict[str, Any]:
    """Head sizes, and the powers of two that tiles are padded to; a matrix instruction takes at least 16."""
    return {"D": dim, "DV": dv, "PAD_D": padded(dim), "PAD_DV": padded(dv)}


def padded(dim: int) -> int:
    return max(16, 1 << (dim - 1).bit_length())


def score_factors(scale: float, softcap: float | None) -> tuple[float, float, float]:
    """(factor, inner, cap): weights are 2^(factor · score) / Σ, where score is q·k, or cap · tanh(inner · q·k)."""
    if softcap is None:
        return scale * LOG2_E, 0.0, 0.0
    return LOG2_E, scale / softcap, softcap


def window_size(window: int | None, lq: int, lk: int) -> int:
    """A window wider than everything is as wide as everything, so that it fits 32 bits."""
    return 0 if window is None else min(window, lq + lk)


def precision(x: Tensor) -> str:
    """How tensors like `x` are multiplied on their device, see `precision_of`. The interpreter has one way only."""
    if x.device.type != "cuda":
        return "ieee"
    major, minor = torch.cuda.get_device_capability(x.device)
    return precision_of(10 * major + minor, x.dtype)


def precision_of(chip: int, dtype: torch.dtype) -> str:
    """The `input_precision` of a product for a chip (80 for compute capability 8.0) and dtype.

    float32 has no matrix instruction in full precision. Where there is one for TF32, with 10 bits of mantissa, each
    number is cut into two TF32 numbers, and three of the four products are summed in float32 ("tf32x3"). A product of
    two numbers is then off by less than 3 · 2^-22 of itself (7e-7; a rounding of float32 is 6e-8), and attention, whose
    sums average such errors, by about as much as in float32: worked out in tests on the CPU. Triton's own default,
    "tf32", is off by 5e-4. Elsewhere "ieee": multiply-adds in full precision, one by one. Half precision is exact in
    either.
    """
    return "tf32x3" if dtype == torch.float32 and chip >= 80 else "ieee"


def is_wide(config: Config, *tensors: Tensor) -> bool:
    """Does a tile of any of these span 2^31 elements? Inside a tile places are otherwise counted in 32 bits."""
    rows = max(config.block_q, config.block_k)
    return any(rows * abs(x.stride(2)) + padded(x.shape[3]) * abs(x.stride(3)) >= 2**31 for x in tensors)


def keys_seen(window: int | None, lq: int, lk: int) -> int:
    """How many keys the queries of a sequence see together at most: those of one window and of each step further."""
    return lk if window is None else min(lk, window + lq - 1)


def splits(programs: int, lk: int, block_k: int, processors: int) -> int:
    """How many programs share the `lk` keys of a head that are seen in decoding: enough for two on each of the chip's
    processors, as long as each has four tiles to read; at most 64, since their parts are joined by one program."""
    return max(1, min(2 * processors // max(programs, 1), lk // (4 * block_k), MAX_SPLITS))


def processors(device: torch.device) -> int:
    """Streaming multiprocessors of the chip; for the interpreter a number that makes small requests split too."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).multi_processor_count
    return 64


def choose(kernel: str, query: Tensor, dv: int) -> Config:
    """The configuration of `kernel` for the chip, dtype and head sizes at hand."""
    if query.device.type != "cuda":
        return INTERPRETER
    major, minor = torch.cuda.get_device_capability(query.device)
    return look_up(kernel, 10 * major + minor, query.dtype, max(query.shape[3], dv))
