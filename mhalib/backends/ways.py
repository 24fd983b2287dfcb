"""Which way through torch's kernel a request takes, by what each would cost. The ways are for the CPU, where they were
measured: `choose` sends other devices' requests to the kernel as they are."""

from __future__ import annotations

from typing import NamedTuple

import torch

from mhalib.arguments import is_symbol
from mhalib.backends import bands, torch_kernel
from mhalib.backends.request import Request

WAYS = {
    "whole": "torch's fused kernel serves this request without forming the weights",
    "folded": "torch's fused kernel, the queries of a group as rows of one head, so that no key is repeated",
    "banded": "torch's fused kernel on bands of queries, each with only the keys that its window reaches",
    "by length": "torch's fused kernel, sequence by sequence without the padding, which needs no mask",
}

# Costs are counted in multiply-adds of the kernel, so that one machine's clock cancels out. Measured in turns on an
# AMD EPYC, one thread, float32: 0.03 ns for each, and 20 to 30 µs for one more call with its views.
#: One more call of the kernel, for each of the threads that wait for it.
CALL = 2**20
#: The softmax of one pair in one head; building one pair of a mask, for all heads.
SOFTMAX, MASK = 64, 64


class Plan(NamedTuple):
    """The way, a key of `WAYS`; the request as it is served by it, restrictions that hide nothing left out.

    sizes: how many queries and keys of each sequence are real, where that was read.
    pairs: of one query and one key that are computed, for one head and summed over the batch.
    """

    way: str
    request: Request
    sizes: list[tuple[int, int]]
    pairs: int


def choose(request: Request) -> Plan:
    """The cheapest way."""
    sizes: list[tuple[int, int]] = []
    by_place_only = request.mask is None and request.bias is None
    if request.query.device.type != "cpu" or not by_place_only or is_symbol(request.lq) or is_symbol(request.lk):
        return _as_it_is(request)
    padded = request.key_lengths is not None or request.query_lengths is not None
    if padded and request.batch > 1 and not torch.compiler.is_compiling():
        sizes = _sizes(request)
        if min(queries for queries, _ in sizes) == request.lq:
            request = request._replace(query_lengths=None)
        if min(keys for _, keys in sizes) == request.lk:
            request = request._replace(key_lengths=None)
    best, cost = _as_it_is(request)._replace(sizes=sizes), _whole_cost(request)
    offset = request.lk - request.lq
    if request.window is not None and request.key_lengths is None:
        pairs, banded = _banded(request, offset)
        if banded < cost:
            best, cost = Plan("banded", request, [], pairs), banded
    # Looking at each sequence takes time too: not where their calls alone cost more than the padding.
    padded = request.key_lengths is not None or request.query_lengths is not None
    if sizes and padded and len(sizes) * _call() < cost:
        alone = [_sequence(request, b, *size, offset) for b, size in enumerate(sizes)]
        if sum(each for _, each in alone) < cost:
            best = Plan("by length", request, sizes, sum(pairs for pairs, _ in alone))
    return best


def restricted(request: Request) -> bool:
    """Is anything hidden or added? Causality alone hides nothing from a single query, which stands at the last key."""
    if request.mask is None and request.bias is None and request.window is None and request.key_lengths is None:
        return request.causal and request.lq > 1
    return True


def part(request: Request, b: int, queries: int, keys: int) -> Request:
    """Sequence `b` of the batch: its real queries over its real keys."""
    return request._replace(
        query=request.query[b : b + 1, :, :queries],
        key=request.key[b : b + 1, :, :keys],
        value=request.value[b : b + 1, :, :keys],
        key_lengths=None,
        query_lengths=None,
    )


def _as_it_is(request: Request) -> Plan:
    way = "folded" if torch_kernel.folds(request, restricted(request)) else "whole"
    return Plan(way, request, [], request.batch * request.lq * request.lk)


def _sizes(request: Request) -> list[tuple[int, int]]:
    """How many queries and how many keys of each sequence are real."""
    given = (request.query_lengths, request.lq), (request.key_lengths, request.lk)
    queries, keys = ([full] * request.batch if lengths is None else lengths.tolist() for lengths, full in given)
    return list(zip(queries, keys, strict=True))


def _pair(request: Request) -> int:
    """The cost of one query and one key, in all heads of all sequences."""
    return request.batch * request.num_heads * (request.query.shape[3] + request.value.shape[3] + SOFTMAX)


def _call() -> int:
    # A compiled program is the same for any number of threads, and its calls cost less.
    return CALL if torch.compiler.is_compiling() else CALL * torch.get_num_threads()


def _whole_cost(request: Request) -> int:
    pairs = request.lq * request.lk
    if request.window is None and request.key_lengths is None:
        if not request.causal:
            return pairs * _pair(request) + _call()
        if request.lq == request.lk:  # torch's own restriction, which skips half of the pairs
            return pairs * _pair(request) // 2 + _call()
    return pairs * (_pair(request) + (MASK if request.window is not None or request.causal else 0)) + _call()


def _banded(request: Request, offset: int) -> tuple[int, int]:
    """The pairs that bands compute, and their cost."""
    total, cost = 0, 0
    for start, stop, first, last, count in bands.pieces(request, offset):
        pairs = (stop - start) * (last - first)
        if count:
            pairs = (stop - start) * (last - first - (count - 1) * ((stop - start) // count))
        total += request.batch * pairs
        cost += pairs * (_pair(request) + (0 if count else MASK)) + _call() * (request.batch if count else 1)
    return total, cost


def _sequence(request: Request, b: int, queries: int, keys: int, offset: int) -> tuple[int, int]:
    """The pairs that one sequence without its padding computes, and their cost."""
    if not queries or not keys:
        return 0, 0
    if request.window is not None:
        return _banded(part(request, b, queries, keys), offset)
    pairs = queries * keys
    square = request.causal and offset == 0
    computed = queries * min(queries, keys) // 2 if square else pairs
    return pairs, computed * _pair(request) // request.batch + _call()
