"""A window cut into bands: blocks of queries, each with only the keys that some query of the block can see.

Bands whose windows lie wholly among the keys differ by their place and by nothing else. They are one call, with a
view of the keys that repeats those that two bands share, and one mask for all. What is left at the two ends is
served block by block. No matrix of all queries by all keys is formed, and no mask of that size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mhalib import masks
from mhalib.backends import reference, torch_kernel
from mhalib.backends.request import Request, Result

#: So many queries are one block at the ends.
EDGE = 256
#: Rows of a band for windows that reach up to WIDE keys, and beyond: torch's kernel multiplies in tiles of 32 rows.
#: Shorter bands read fewer keys in vain; longer ones share fewer keys, whose gradients are added: twice as many rows
#: in training.
ROWS, WIDE = (32, 64), 256
#: A band of a group of heads, folded into rows, has at least so many queries.
FEWEST = 16
#: In training the bands of one call are as many as hold up to so many numbers of repeated keys.
REPEATED = 2**20


class Piece(NamedTuple):
    """Queries `start … stop` over keys `first … last`; `bands` of equal size, or one block where that is 0."""

    start: int
    stop: int
    first: int
    last: int
    bands: int = 0


def attend(request: Request, offset: int | None = None) -> Result:
    """The request's queries over its keys in their window; its mask, bias and lengths are not looked at.

    Args:
        request: as `mhalib.attention` has it, with a window.
        offset: query `i` stands at key `i + offset`; None: the last query stands at the last key.
    """
    offset = request.lk - request.lq if offset is None else offset
    results = [
        _bands(request, piece, offset) if piece.bands else _block(request, piece, offset)
        for piece in pieces(request, offset)
    ]
    if len(results) == 1:
        return results[0]
    output = torch.cat([result.output for result in results], dim=2)
    lses = [result.lse for result in results if result.lse is not None]
    return Result(output, None, torch.cat(lses, dim=2) if lses else None)


def pieces(request: Request, offset: int) -> list[Piece]:
    """What `attend` does, one piece after another."""
    lq, lk = request.lq, request.lk
    behind, ahead = _reach(request)
    rows = _rows(request)
    # The first query whose window begins at a key, and the number of those after it whose window ends at one.
    first = max(0, behind - offset)
    whole = min(lq, lk - ahead - offset) - first
    if request.causal and offset == 0 and first:  # then the first block is a square, which needs no mask
        first, whole = first + 1, whole - 1
    bands = max(0, whole // rows)
    if bands < 2:
        return list(_blocks(request, 0, lq, offset))
    found = list(_blocks(request, 0, first, offset))
    together = bands
    if _in_training(request):
        span = (rows + behind + ahead) * request.num_kv_heads * request.key.shape[3]
        together = max(1, REPEATED // span)
    for begin in range(0, bands, together):
        count = min(together, bands - begin)
        start = first + begin * rows
        stop = start + count * rows
        found.append(Piece(start, stop, start + offset - behind, stop + offset + ahead, count))
    found.extend(_blocks(request, first + bands * rows, lq, offset))
    return found


def _reach(request: Request) -> tuple[int, int]:
    """How many keys before its own, and behind it, the window of a query holds."""
    assert request.window is not None
    return request.window - 1, 0 if request.causal else request.window - 1


def _rows(request: Request) -> int:
    """Queries of one band; with its group of heads they are folded into rows."""
    rows = ROWS[sum(_reach(request)) + 1 > WIDE] * (2 if _in_training(request) else 1)
    return max(FEWEST, rows * request.num_kv_heads // request.num_heads)


def _in_training(request: Request) -> bool:
    qkv = request.query, request.key, request.value
    return torch.is_grad_enabled() and any(x.requires_grad for x in qkv)


def _blocks(request: Request, start: int, stop: int, offset: int) -> Iterator[Piece]:
    """Queries `start … stop` in blocks of up to `EDGE`; a square at the beginning is one block."""
    (behind, ahead), lk = _reach(request), request.lk
    square = Piece(0, stop, 0, stop)
    if start == 0 and 0 < stop <= lk and _is_square(square, request, offset):
        yield square
        return
    while start < stop:
        end = min(start + EDGE, stop)
        first = min(max(0, start + offset - behind), lk)
        last = end + offset + ahead
        yield Piece(start, end, first, max(first, min(last, lk)))
        start = end


def _block(request: Request, piece: Piece, offset: int) -> Result:
    """One block of queries over the keys that some of them see, under a mask."""
    start, stop, first, last, _ = piece
    part = request._replace(
        query=request.query[:, :, start:stop], key=request.key[:, :, first:last], value=request.value[:, :, first:last]
    )
    if first == last:
        return reference.run(part._replace(causal=False, window=None, key_lengths=None, query_lengths=None))
    if _is_square(piece, request, offset):
        return torch_kernel.attend(part, None, is_causal=stop > 1)
    behind, ahead = _reach(request)
    from_the_start, to_the_end = start + offset + ahead >= 0, stop - 1 + offset - behind < request.lk
    if stop - start == 1 and request.causal:
        return torch_kernel.attend(part, None)
    device = request.query.device
    queries = torch.arange(start + offset, stop + offset, device=device)
    mask = masks.near(queries, torch.arange(first, last, device=device), request.window, causal=request.causal)
    if from_the_start and to_the_end:
        return torch_kernel.attend(part, mask)
    dead = ~mask.any(-1, keepdim=True)  # queries that stand too far before the first key, or behind the last
    return torch_kernel.blank(torch_kernel.attend(part, mask | dead), dead)


def _is_square(piece: Piece, request: Request, offset: int) -> bool:
    """Does each query of the block see all keys up to its own, so that torch's own causal restriction serves?"""
    at_the_start = piece.start == 0 and piece.first == 0 and offset == 0 and request.causal
    return at_the_start and piece.stop == piece.last and piece.stop <= _reach(request)[0] + 1


def _bands(request: Request, piece: Piece, offset: int) -> Result:
    """All bands of a piece in one call for each sequence, its heads in the place of the batch and bands in theirs."""
    start, stop, first, last, bands = piece
    rows, groups = (stop - start) // bands, request.num_heads // request.num_kv_heads
    span = last - first - (bands - 1) * rows
    device = request.query.device
    queries = torch.arange(rows, device=device) + _reach(request)[0]
    mask = masks.near(queries, torch.arange(span, device=device), request.window, causal=request.causal)
    mask = masks.to_additive(mask, request.query.dtype).repeat(groups, 1)
    query = request.query[:, :, start:stop].unflatten(2, (bands, rows)).unflatten(1, (-1, groups))
    query = query.transpose(2, 3).flatten(3, 4)  # (B, Hkv, bands, groups · rows, D)
    key, value = (x[:, :, first:last].unfold(2, span, rows).mT for x in (request.key, request.value))
    parts = [
        torch_kernel.attend(request._replace(query=query[b], key=key[b], value=value[b]), mask)
        for b in range(request.batch)
    ]

    def in_order(x: Tensor) -> Tensor:
        """(B, Hkv, bands, groups · rows, …) → (B, Hq, queries, …)."""
        return x.unflatten(3, (groups, rows)).transpose(2, 3).flatten(1, 2).flatten(2, 3)

    output = in_order(torch.stack([part.output for part in parts]))
    lses = [part.lse for part in parts if part.lse is not None]
    return Result(output, None, in_order(torch.stack(lses)) if lses else None)
