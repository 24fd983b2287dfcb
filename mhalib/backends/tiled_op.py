"""The tiled backend as operators of torch.

torch.compile and torch.export keep each as one call, whatever the lengths, and do not unroll its tiles; the meta device
and fake tensors know the shapes of its results.
"""

import torch
from torch import Tensor

from mhalib.arguments import readable, unwrapped
from mhalib.backends.mixed_precision import autocast_off
from mhalib.backends.request import Request, compute_dtype
from mhalib.backends.tiles import Gradients, Tiles, backward_rows, forward_rows


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    key_lengths: Tensor | None,
    query_lengths: Tensor | None,
    seed: Tensor | None,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
    dropout: float,
    block_q: int,
    block_k: int,
) -> tuple[Tensor, Tensor]:
    request = Request(
        query, key, value, scale, mask, bias, causal, window, key_lengths, query_lengths, softcap, dropout
    )
    tiles = Tiles(request, block_q, block_k, seed)
    output = query.new_empty(*query.shape[:3], value.shape[3])
    lse = query.new_empty(query.shape[:3], dtype=request.compute_dtype)
    for rows in tiles.rows():
        tile_output, tile_lse = forward_rows(tiles, rows)
        output[:, :, rows] = tile_output.flatten(1, 2)
        lse[:, :, rows] = tile_lse.flatten(1, 2)
    return output, lse


def backward(
    grad_output: Tensor,
    grad_lse: Tensor,
    output: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    key_lengths: Tensor | None,
    query_lengths: Tensor | None,
    seed: Tensor | None,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
    dropout: float,
    block_q: int,
    block_k: int,
    wants_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value and bias, the last one empty where it is not wanted."""
    request = Request(
        query, key, value, scale, mask, bias, causal, window, key_lengths, query_lengths, softcap, dropout
    )
    tiles = Tiles(request, block_q, block_k, seed)
    dead = lse == -torch.inf
    # What arrives for a query that sees no key is left out here: its NaN would reach every key as 0 · NaN.
    grad_output = grad_output.to(tiles.dtype).masked_fill(dead[..., None], 0.0)
    # rowsum(dO ∘ O) equals rowsum(P ∘ dP), without P. A gradient that arrives at lse enters at the same place.
    delta = tiles.grouped((grad_output * output).sum(-1) - grad_lse.masked_fill(dead, 0.0))
    # exp(−inf − inf) is 0, as the weights of a dead row should be; exp(−inf − −inf) would be NaN.
    lse = tiles.grouped(lse.masked_fill(dead, torch.inf))
    grads = Gradients(tiles, bias if wants_bias else None)
    with autocast_off(query):  # backward() may be called under autocast
        for rows in tiles.rows():
            backward_rows(tiles, rows, tiles.grouped(grad_output), delta, lse, grads)
    return grads.in_shape_of(query, key, value, bias)


tiled_forward = torch.library.custom_op("mhalib::tiled_forward", forward, mutates_args=())
tiled_backward = torch.library.custom_op("mhalib::tiled_backward", backward, mutates_args=())


def _at_hand(arguments) -> bool:
    """Are all tensors among them plain ones on the CPU, whose products whoever counts or profiles should see?"""
    tensors = [x for x in arguments if isinstance(x, Tensor)]
    return all(unwrapped(x) is None and readable(x) is not None for x in tensors)


def run_forward(*arguments):
    """`forward` itself where its tensors are at hand, else the operator."""
    return (forward if _at_hand(arguments) else tiled_forward)(*arguments)


def run_backward(*arguments):
    """`backward` itself where its tensors are at hand, else the operator."""
    return (backward if _at_hand(arguments) else tiled_backward)(*arguments)


@tiled_forward.register_fake
def _(query, key, value, *others):
    lse = query.new_empty(query.shape[:3], dtype=compute_dtype(query))
    return query.new_empty(*query.shape[:3], value.shape[3]), lse


@tiled_backward.register_fake
def _(grad_output, grad_lse, output, lse, query, key, value, bias, *others):
    of_bias = bias.new_empty(bias.shape) if others[-1] else query.new_empty(0)
    return *(x.new_empty(x.shape) for x in (query, key, value)), of_bias


def one_by_one(operator):
    """The rule of vmap: the operator on each sample, so that dropout draws as vmap's `randomness` says."""

    def rule(info, in_dims, *arguments):
        def sample(n: int):
            pairs = zip(arguments, in_dims, strict=True)
            return [x if dim is None else x.select(dim, n) for x, dim in pairs]

        results = zip(*(operator(*sample(n)) for n in range(info.batch_size)), strict=True)
        stacked = tuple(torch.stack(result) for result in results)
        return stacked, (0,) * len(stacked)

    return rule


for _operator in (tiled_forward, tiled_backward):
    torch.library.register_vmap(_operator, one_by_one(_operator))
