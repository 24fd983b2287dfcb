"""torch's fused kernels: `torch.nn.functional.scaled_dot_product_attention`, with this library's contract around it.

Three of its habits are corrected here: `is_causal` is aligned at the top left when the lengths differ; a row that
may attend to nothing is 0, NaN or a mean depending on the kernel; one key head is broadcast without being asked.

Given a mask, torch's kernel on CPU reads all of it and computes every pair; given grouped heads, it repeats the keys.
Where a restriction is known by its name, less will do: `ways` says which way is taken.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from mhalib import masks
from mhalib.arguments import readable
from mhalib.backends import bands, reference, torch_kernel
from mhalib.backends.request import Request, Result
from mhalib.backends.ways import WAYS, choose, part, restricted

#: `auto` lets torch form weights of up to so many bytes: it is then 1.3 to 1.8 times as fast as tile by tile.
MOST_WEIGHTS = 64 * 2**20


def refusal(request: Request) -> str | None:
    if request.return_weights:
        return "torch's fused kernels never form the weights"
    if request.softcap is not None:
        return "torch's fused kernels cannot cap the scores"
    bias, dtype = request.bias, request.query.dtype
    if bias is not None and torch.promote_types(bias.dtype, dtype) != dtype:
        return f"torch's fused kernels would round the {bias.dtype} bias to {dtype}"
    if 0 in request.query.shape or 0 in request.key.shape or 0 in request.value.shape:
        return "torch's fused kernels are not defined on empty inputs"
    if request.return_lse:
        if request.query.device.type != "cpu":
            return "torch's public interface does not return the log-sum-exp"
        return torch_kernel.forms_weights(request)
    return None


def declined(request: Request) -> str | None:
    """Why `auto` takes another backend: a refusal, or weights that torch would form and that are too many."""
    why = refusal(request)
    if why is not None:
        return why
    why = torch_kernel.forms_weights(request)
    if why is None:
        return None
    weights = choose(request).pairs * request.num_heads * request.compute_dtype.itemsize
    return why if weights > MOST_WEIGHTS else None


def reason(request: Request) -> str:
    """The way in words, and why it is torch's formula where it is not its fused kernel."""
    way, formula = choose(request).way, torch_kernel.forms_weights(request)
    if formula is None:
        return WAYS[way]
    rest = "" if way == "whole" else WAYS[way].removeprefix("torch's fused kernel")
    return f"torch's formula, which forms the weights{rest}: {formula}"


def run(request: Request) -> Result:
    way, request, sizes, _ = choose(request)
    if way == "by length":
        return _joined(request, [_sequence(request, b, *size) for b, size in enumerate(sizes)])
    padded = request.padded_queries()
    if way != "banded":
        return _whole(request, padded, min(keys for _, keys in sizes) if sizes else 0)
    result = bands.attend(request)
    return result if padded is None else torch_kernel.blank(result, padded)


def _sequence(request: Request, b: int, queries: int, keys: int) -> Result:
    """Attention of one sequence without its padding: output (1, Hq, queries, Dv)."""
    alone, offset = part(request, b, queries, keys), request.lk - request.lq
    if not queries or not keys:
        return reference.run(alone._replace(causal=False, window=None))
    if request.window is not None:
        return bands.attend(alone, offset)
    if not request.causal:
        return _whole(alone)
    if offset == 0:
        # Query i sees keys 0 … i of those that are left: here the top-left corner of torch's is_causal is right.
        return torch_kernel.attend(alone, None, is_causal=True)
    causal = masks.causal(request.lq, request.lk, device=request.query.device)[:queries, :keys]
    return _whole(alone._replace(mask=causal, causal=False))


def _joined(request: Request, parts: list[Result]) -> Result:
    """The sequences' results in one batch; rows of padding are blank."""
    # (L, H, Dv) is how torch's kernel leaves its result in memory, so that each is copied once, as it lies.
    outputs = [part.output[0].transpose(0, 1) for part in parts]
    output = pad_sequence(outputs, batch_first=True).transpose(1, 2)
    lses = [part.lse for part in parts if part.lse is not None]
    lses = [pad(lse, (0, request.lq - lse.shape[2]), value=-torch.inf) for lse in lses]
    missing = request.lq - output.shape[2]
    return Result(pad(output, (0, 0, 0, missing)) if missing else output, None, torch.cat(lses) if lses else None)


def _whole(request: Request, padded: Tensor | None = None, fewest_keys: int = 0) -> Result:
    """All queries over all keys in one call; the rows `padded` (…, Lq, 1) are blank.

    fewest_keys: each sequence is known to have so many, so that no row need be looked at.
    """
    if 0 in request.query.shape or 0 in request.key.shape:
        return reference.run(request)
    attn_mask, dead, is_causal = _restrictions(request, fewest_keys)
    result = torch_kernel.attend(request, attn_mask, is_causal=is_causal)
    blank = padded if dead is None else dead if padded is None else dead | padded
    return result if blank is None else torch_kernel.blank(result, blank)


def _restrictions(request: Request, fewest_keys: int) -> tuple[Tensor | None, Tensor | None, bool]:
    """(mask for torch, rows to blank afterwards (…, Lq, 1), is_causal): dead rows are opened, then blanked."""
    if not restricted(request):
        return None, None, False
    by_place = request.mask is None and request.bias is None and request.key_lengths is None
    if by_place and request.window is None and request.lq == request.lk:
        return None, None, True
    allowed = request._replace(query_lengths=None).allowed()  # `run` blanks those rows
    if request.bias is None:
        assert allowed is not None
        # Each query stands at a key, which it sees; or, where lengths are all that hides others, sees the first one.
        first_seen = request.mask is None and request.window is None and fewest_keys > 0
        if (by_place or first_seen) and request.lq <= request.lk:
            return _expand(allowed, request), None, False
        dead = ~allowed.any(dim=-1, keepdim=True)
        if _none(dead):
            return _expand(allowed, request), None, False
        return _expand(allowed | dead, request), dead, False
    bias = request.bias.to(request.query.dtype)
    if allowed is not None:
        bias = bias.masked_fill(~allowed, float("-inf"))
    dead = bias.detach().amax(dim=-1, keepdim=True) == float("-inf")
    if _none(dead):
        return _expand(bias, request), None, False
    return _expand(bias.masked_fill(dead, 0.0), request), dead, False


def _none(rows: Tensor) -> bool:
    """Is none of them True, as far as can be seen at once? Then no copy of a mask or bias need be made."""
    seen = readable(rows)
    return seen is not None and not seen.any()


def _expand(mask: Tensor, request: Request) -> Tensor:
    """A view with all queries and keys, which torch's kernels for GPUs want; heads and batch stay 1 where they are.

    On a CPU the view would be copied as numbers to add.
    """
    if request.query.device.type == "cpu":
        return mask
    return mask.expand(*mask.shape[:-2], request.lq, request.lk)
