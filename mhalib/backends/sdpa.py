"""torch's fused kernels: `torch.nn.functional.scaled_dot_product_attention`, with this library's contract around it.

Three of its habits are corrected here: `is_causal` is aligned at the top left when the lengths differ; a row that
may attend to nothing is 0, NaN or a mean depending on the kernel; one key head is broadcast without being asked.

Given a mask, torch's kernel on CPU reads all of it and computes every pair; given grouped heads, it repeats the keys.
Where a restriction is known by its name, less will do: `plan` says which way is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence

from mhalib import masks
from mhalib.backends import reference
from mhalib.backends.request import Request, Result

#: So many queries share one band of keys.
BAND = 256
#: Up to so many queries, a group's queries are folded into rows even where their mask must be repeated for that.
FEW_QUERIES = 16

WAYS = {
    "whole": "torch's fused kernel serves this request without forming the weights",
    "folded": "torch's fused kernel, the queries of a group as rows of one head, so that no key is repeated",
    "banded": f"torch's fused kernel on bands of {BAND} queries, each with only the keys that its window reaches",
    "by length": "torch's fused kernel, sequence by sequence without the padding, which needs no mask",
}


def refusal(request: Request) -> str | None:
    if request.return_weights:
        return "torch's fused kernels never form the weights"
    if request.return_lse:
        return "torch's public interface does not return the log-sum-exp"
    if request.softcap is not None:
        return "torch's fused kernels cannot cap the scores"
    bias, dtype = request.bias, request.query.dtype
    if bias is not None and torch.promote_types(bias.dtype, dtype) != dtype:
        return f"torch's fused kernels would round the {bias.dtype} bias to {dtype}"
    if 0 in request.query.shape or 0 in request.key.shape or 0 in request.value.shape:
        return "torch's fused kernels are not defined on empty inputs"
    return None


def plan(request: Request) -> str:
    """The way this request is served, a key of `WAYS`; anything but "whole" is for the CPU, where it was measured."""
    if request.query.device.type != "cpu" or torch.compiler.is_compiling():
        return "whole"
    if request.mask is None and request.bias is None:
        if request.window is not None and request.key_lengths is None:
            reach = request.window if request.causal else 2 * request.window
            if 2 * (reach + min(BAND, request.lq)) <= request.lk:
                return "banded"
        elif request.window is None and request.batch > 1 and _padded(request):
            return "by length"
    return "folded" if _folds(request) else "whole"


def run(request: Request) -> Result:
    way = plan(request)
    if way == "by length":
        outputs = [_sequence(request, b, *sizes) for b, sizes in enumerate(_sizes(request))]
        # (L, H, Dv) is how torch's kernel leaves its result in memory, so that each is copied once, as it lies.
        output = pad_sequence([output[0].transpose(0, 1) for output in outputs], batch_first=True).transpose(1, 2)
        missing = request.lq - output.shape[2]
        return Result(pad(output, (0, 0, 0, missing)) if missing else output)
    output = torch.cat([_whole(band) for band in _bands(request)], dim=2) if way == "banded" else _whole(request)
    return Result(output if request.query_lengths is None else output.masked_fill(request.padded_queries(), 0.0))


def _sizes(request: Request) -> list[tuple[int, int]]:
    """How many queries and how many keys of each sequence are real."""
    given = (request.query_lengths, request.lq), (request.key_lengths, request.lk)
    queries, keys = ([full] * request.batch if lengths is None else lengths.tolist() for lengths, full in given)
    return list(zip(queries, keys, strict=True))


def _bands(request: Request) -> Iterator[Request]:
    """One request for each block of queries, over the keys that some query of the block can see."""
    offset = request.lk - request.lq
    for start in range(0, request.lq, BAND):
        stop = min(start + BAND, request.lq)
        first = min(max(0, start + offset - request.window + 1), request.lk)
        last = stop + offset if request.causal else stop + offset + request.window - 1
        keys = slice(first, max(first, min(last, request.lk)))
        band = None
        if not (request.causal and stop - start == 1):
            at = torch.arange(start, stop, device=request.query.device) + offset
            distance = torch.arange(keys.start, keys.stop, device=request.query.device) - at[:, None]
            band = distance.abs() < request.window
            band = band & (distance <= 0) if request.causal else band
        yield request._replace(
            query=request.query[:, :, start:stop],
            key=request.key[:, :, keys],
            value=request.value[:, :, keys],
            mask=band,
            causal=False,
            window=None,
        )


def _sequence(request: Request, b: int, queries: int, keys: int) -> Tensor:
    """Sequence `b` of the batch: its real queries over its real keys, (1, Hq, queries, Dv)."""
    alone = request._replace(
        query=request.query[b : b + 1, :, :queries],
        key=request.key[b : b + 1, :, :keys],
        value=request.value[b : b + 1, :, :keys],
        key_lengths=None,
        query_lengths=None,
        causal=False,
    )
    if not request.causal:
        return _whole(alone)
    if request.lq == request.lk and queries and keys:
        # Query i sees keys 0 … i of those that are left: here the top-left corner of torch's is_causal is right.
        return _kernel(alone, None, is_causal=True)
    causal = masks.causal(request.lq, request.lk, device=request.query.device)[:queries, :keys]
    return _whole(alone._replace(mask=causal))


def _whole(request: Request) -> Tensor:
    if 0 in request.query.shape or 0 in request.key.shape:
        return reference.run(request).output
    attn_mask, dead, is_causal = _restrictions(request)
    output = _kernel(request, attn_mask, is_causal)
    return output if dead is None else output.masked_fill(dead, 0.0)


def _kernel(request: Request, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    folded = not is_causal and _folds(request)
    query = request.query
    if folded:
        query = query.unflatten(1, (request.num_kv_heads, -1)).flatten(2, 3)
        if attn_mask is not None:
            every_head = attn_mask if attn_mask.dim() == 4 else attn_mask[None, None]
            every_head = every_head.expand(-1, request.num_heads, -1, -1)
            attn_mask = every_head.unflatten(1, (request.num_kv_heads, -1)).flatten(2, 3)
    output = scaled_dot_product_attention(
        query,
        request.key,
        request.value,
        attn_mask=attn_mask,
        dropout_p=request.dropout,
        is_causal=is_causal,
        scale=request.scale,
        enable_gqa=query.shape[1] != request.num_kv_heads,
    )
    return output.unflatten(2, (-1, request.lq)).flatten(1, 2) if folded else output


def _folds(request: Request) -> bool:
    if request.query.device.type != "cpu" or request.num_heads == request.num_kv_heads:
        return False
    return request.lq <= FEW_QUERIES or not _restricted(request)


def _padded(request: Request) -> bool:
    return request.key_lengths is not None or request.query_lengths is not None


def _restricted(request: Request) -> bool:
    """Is anything hidden or added? Causality alone hides nothing from a single query, which stands at the last key."""
    if request.mask is None and request.bias is None and request.window is None and request.key_lengths is None:
        return request.causal and request.lq > 1
    return True


def _restrictions(request: Request) -> tuple[Tensor | None, Tensor | None, bool]:
    """(mask for torch, rows to blank afterwards (…, Lq, 1), is_causal): dead rows are opened, then blanked."""
    if not _restricted(request):
        return None, None, False
    only_causal = request.mask is None and request.window is None and request.key_lengths is None
    if only_causal and request.bias is None and request.lq == request.lk:
        return None, None, True
    allowed = request._replace(query_lengths=None).allowed()  # `run` blanks those rows
    if request.bias is None:
        dead = ~allowed.any(dim=-1, keepdim=True)
        return _expand(allowed | dead, request), dead, False
    bias = request.bias.to(request.query.dtype)
    if allowed is not None:
        bias = bias.masked_fill(~allowed, float("-inf"))
    dead = (bias == float("-inf")).all(dim=-1, keepdim=True)
    return _expand(bias.masked_fill(dead, 0.0), request), dead, False


def _expand(mask: Tensor, request: Request) -> Tensor:
    """A view with all queries and keys, which some of torch's kernels want; heads and batch stay 1 where they are."""
    return mask.expand(*mask.shape[:-2], request.lq, request.lk)
