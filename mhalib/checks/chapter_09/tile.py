"""Exercise 09.tile: the addresses and the mask of one tile of keys."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mhalib.checks import Case, Exercise, Finding, Outcome, Property
from mhalib.checks.chapter_09._shared import pick
from mhalib.checks.compare import difference


def tile(
    batch_head: Tensor,
    number: Tensor,
    strides: Tensor,
    num_heads: int,
    num_kv_heads: int,
    length: int,
    head_dim: int,
    block: int,
    block_d: int,
) -> tuple[Tensor, Tensor]:
    """Offsets, int64, and mask, both (block, block_d), of tile `number` of the keys that a query head reads."""
    return _tile_with()(batch_head, number, strides, num_heads, num_kv_heads, length, head_dim, block, block_d)


def _rows_and_channels(rows: Tensor, channels: Tensor, length: int, head_dim: int) -> Tensor:
    return (rows < length) & (channels < head_dim)


def _by_group(head: int, num_heads: int, num_kv_heads: int) -> int:
    return head // (num_heads // num_kv_heads)


def _tile_with(
    key_head: Callable = _by_group,
    split: Callable = lambda bh, h, kv: divmod(bh, h),
    mask: Callable = _rows_and_channels,
    first: Callable = lambda number, block: number * block,
    steps: Callable = lambda strides, kv, length, dims: strides,
    wrap: Callable = lambda offset: offset,
):
    """The addresses with one thing different; `wrap` is what the arithmetic does to a product."""

    def mistaken(
        batch_head: Tensor,
        number: Tensor,
        strides: Tensor,
        num_heads: int,
        num_kv_heads: int,
        length: int,
        head_dim: int,
        block: int,
        block_d: int,
    ) -> tuple[Tensor, Tensor]:
        batch, head = split(int(batch_head), num_heads, num_kv_heads)
        rows = first(int(number), block) + torch.arange(block)[:, None]
        channels = torch.arange(block_d)
        of_batch, of_head, of_row, of_channel = steps(strides.tolist(), num_kv_heads, length, head_dim)
        start = wrap(torch.tensor(batch * of_batch + key_head(head, num_heads, num_kv_heads) * of_head))
        inside = mask(rows, channels, length, head_dim).expand(block, block_d)
        return start + rows * of_row + channels * of_channel, inside

    return mistaken


def _in_32_bits(offset: Tensor) -> Tensor:
    return (offset + 2**31) % 2**32 - 2**31


def _all_in_32_bits(*arguments: object, **named: object) -> tuple[Tensor, Tensor]:
    offsets, mask = tile(*arguments, **named)
    return _in_32_bits(offsets), mask


def _tile_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, batch_head: int, number: int, strides: list[int], heads: tuple[int, int], **sizes: int) -> Case:
        ids = {"batch_head": batch_head, "number": number, "strides": strides}
        arguments = {n: torch.tensor(x, dtype=torch.int32) for n, x in ids.items()}
        return Case(name, {**arguments, "num_heads": heads[0], "num_kv_heads": heads[1], **sizes})

    length, dims = pick(generator, 41, 47), pick(generator, 9, 15)
    small = {"length": length, "head_dim": dims, "block": 16, "block_d": 16}
    plain = [2 * length * dims, length * dims, dims, 1]  # (B, 2, L, D), one number after another
    behind = [2 * length * dims, dims, 2 * dims, 1]  # a view of (B, L, 2, D)
    whole = {"length": 32, "head_dim": 16, "block": 8, "block_d": 16}
    long = {"length": 70000, "head_dim": 128, "block": 64, "block_d": 128}
    return [
        case("the first tile", 0, 0, plain, (4, 2), **small),
        case("the last tile, 4 heads on 2", 6, 2, plain, (4, 2), **small),
        case("heads behind the rows", 5, 1, behind, (4, 2), **small),
        case("channels far apart", 11, 1, [1, 3, 640, 6], (6, 3), **whole),
        case("as many key heads as heads", 7, 3, [1600, 520, 16, 1], (3, 3), **whole),
        case("one key head", 9, 0, [512, 512, 16, 1], (4, 1), **whole),
        case("batch 30, far out in memory", 30 * 8 + 5, 9, [8 * 70000 * 128, 70000 * 128, 128, 1], (8, 8), **long),
        case("row 69,952 of rows far apart", 3, 1093, [0, 0, 65536, 1], (4, 2), **long),
    ]


def _dtypes(outcome: Outcome) -> list[torch.dtype]:
    return [x.dtype for x in outcome.value]


def _right_addresses(case: Case, got: Outcome, want: Outcome) -> bool:
    """Where nothing is loaded, any address will do."""
    offsets, (expected, mask) = got.value[0], want.value
    return offsets.dtype == torch.int64 and offsets.shape == mask.shape and torch.equal(offsets[mask], expected[mask])


TILE = Exercise(
    id="09.tile",
    points=4,
    answer="tile",
    cases=_tile_cases,
    reference=tile,
    properties=(
        Property.each("two tensors, of int64 and of bool", lambda case, got, want: _dtypes(got) == _dtypes(want)),
        Property.each("the addresses of what exists are right", _right_addresses),
        Property.each(
            "the mask is true of what exists, and of nothing else",
            lambda case, got, want: not difference(got.value[1], want.value[1]),
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "one number after another",
            "Right for a tensor that lies in memory in the order of its axes. For a view of another one, what do the "
            "strides say that the sizes do not?",
            _tile_with(steps=lambda strides, kv, length, dims: (kv * length * dims, length * dims, dims, 1)),
        ),
        Finding.like(
            "32 bits",
            "Right near the beginning of memory. Ids and strides have 32 bits, and so has the product of two of them. "
            "What is the largest number that fits, and which of the products here are larger?",
            _tile_with(wrap=_in_32_bits),
            _all_in_32_bits,
        ),
        Finding.like(
            "key heads by modulo",
            "With one key head, or as many as query heads, this is right. Which query heads share a key head: "
            "neighbours, or every second one?",
            _tile_with(key_head=lambda head, heads, kv: head % kv),
        ),
        Finding.like(
            "a key head for every query head",
            "There are fewer key heads than query heads: the last of your heads lie behind the tensor. Which key head "
            "does a query head read?",
            _tile_with(key_head=lambda head, heads, kv: head),
        ),
        Finding.like(
            "split by the key heads",
            "The second program id counts *query* heads, all heads of a sequence before the next sequence. By which "
            "number is it divided, then?",
            _tile_with(
                split=lambda bh, h, kv: divmod(bh, kv),
                key_head=lambda head, heads, kv: head,
            ),
        ),
        Finding.like(
            "sequence and head exchanged",
            "Program 5 of 4 heads is head 1 of sequence 1. Quotient or remainder: which of them is the head?",
            _tile_with(split=lambda bh, h, kv: divmod(bh, h)[::-1]),
        ),
        Finding.like(
            "tile for row",
            "Tile 2 of 16 rows does not begin at row 2.",
            _tile_with(first=lambda number, block: number),
        ),
        Finding.like(
            "channels unmasked",
            "The rows are fenced. A head of 9 numbers in a block of 16: what stands in the other seven places?",
            _tile_with(mask=lambda rows, channels, length, dims: rows < length),
        ),
        Finding.like(
            "rows unmasked",
            "The channels are fenced. 41 rows in tiles of 16: which rows of the last tile do not exist?",
            _tile_with(mask=lambda rows, channels, length, dims: channels < dims),
        ),
        Finding.like(
            "one row too many",
            "Rows are counted from 0. Which is the last one of 41?",
            _tile_with(mask=lambda rows, channels, length, dims: (rows <= length) & (channels <= dims)),
        ),
    ),
)
