"""One tile after another: the arithmetic of the tiled backend, for `mhalib.backends.tiled_op`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from mhalib.arguments import readable
from mhalib.backends.request import Request


def forward_rows(tiles: Tiles, rows: slice) -> tuple[Tensor, Tensor]:
    """One block of queries over all its keys: running maximum, sum and output are rescaled as the maximum grows."""
    shape = (*tiles.query.shape[:3], rows.stop - rows.start)
    maximum = tiles.query.new_full(shape, -torch.inf)
    total = tiles.query.new_zeros(shape)
    output = tiles.query.new_zeros(*shape, tiles.value.shape[-1])
    shift = torch.zeros_like(total)
    for cols in tiles.columns(rows):
        scores, _ = tiles.scores(rows, cols)
        new_maximum = torch.maximum(maximum, scores.amax(-1))
        # While a row has seen no key its maximum is −inf, and −inf − −inf is NaN: such rows are shifted by 0.
        shift = new_maximum.masked_fill(new_maximum == -torch.inf, 0.0)
        weights = scores.sub_(shift[..., None]).exp_()
        rescale = torch.exp(maximum - shift)
        total = rescale * total + weights.sum(-1)
        output = rescale[..., None] * output + tiles.times_keys(tiles.drop(weights, rows, cols), tiles.value, cols)
        maximum = new_maximum
    return output / total.masked_fill(total == 0, 1.0)[..., None], shift + total.log()


def backward_rows(tiles, rows, grad_output, delta, lse, grads) -> None:
    grad_rows = grad_output[:, :, :, rows]
    for cols in tiles.columns(rows):
        scores, slope = tiles.scores(rows, cols)
        weights = scores.sub_(lse[..., rows, None]).exp_()
        grads.value[:, :, cols] += tiles.times_queries(tiles.drop(weights, rows, cols), grad_rows)
        grad_weights = tiles.drop(tiles.outer(grad_rows, tiles.value, cols), rows, cols)
        grad_scores = weights * (grad_weights - delta[..., rows, None])
        grads.add_bias(grad_scores, rows, cols)
        grad_scores = grad_scores * (tiles.request.scale if slope is None else slope * tiles.request.scale)
        grads.query[:, :, :, rows] += tiles.times_keys(grad_scores, tiles.key, cols)
        grads.key[:, :, cols] += tiles.times_queries(grad_scores, tiles.query[:, :, :, rows])


class Tiles:
    """Inputs in the accumulating dtype, heads grouped as (B, Hkv, G, L, D), cut into blocks of rows and columns."""

    def __init__(self, request: Request, block_q: int, block_k: int, seed: Tensor | None):
        self.request, self.block_q, self.block_k = request, block_q, block_k
        self.dtype, self.bias = request.compute_dtype, request.bias
        self.query = self.grouped(request.query.to(self.dtype))
        self.key, self.value = request.key.to(self.dtype), request.value.to(self.dtype)
        self.seed = 0 if seed is None else int(seed)

    def grouped(self, x: Tensor) -> Tensor:
        """(B, Hq, …) → (B, Hkv, G, …)."""
        return x.unflatten(1, (self.request.num_kv_heads, -1))

    def rows(self) -> Iterator[slice]:
        return _blocks(0, self.request.lq, self.block_q)

    def columns(self, rows: slice) -> Iterator[slice]:
        """The blocks of keys in which some query of `rows` may see something; the others are never computed."""
        request, offset = self.request, self.request.lk - self.request.lq
        first, last = 0, request.lk
        if request.causal:
            last = min(last, rows.stop + offset)
        if request.window is not None:
            first = max(first, rows.start + offset - request.window + 1)
            last = min(last, rows.stop + offset + request.window - 1)
        if request.key_lengths is not None and request.batch and readable(request.key_lengths) is not None:
            last = min(last, int(request.key_lengths.max()))
        return _blocks(first, last, self.block_k)

    def scores(self, rows: slice, cols: slice) -> tuple[Tensor, Tensor | None]:
        """One tile of scores (B, Hkv, G, rows, cols), −inf where hidden, and d score / d (scale · q·k) under a cap."""
        tile = self.outer(self.query[:, :, :, rows], self.key, cols).mul_(self.request.scale)
        slope, cap = None, self.request.softcap
        if cap is not None:
            tile = cap * torch.tanh(tile / cap)
            slope = 1 - (tile / cap) ** 2
        if self.bias is not None:
            tile = tile + self.part(self.bias, rows, cols).to(self.dtype)
        for hidden in self.hidden(rows, cols):
            tile.masked_fill_(hidden, -torch.inf)
        return tile, slope

    def hidden(self, rows: slice, cols: slice) -> Iterator[Tensor]:
        """What hides keys in this tile, each True = hidden; nothing for a tile that lies wholly inside."""
        request, device = self.request, self.query.device
        if request.mask is not None:
            yield ~self.part(request.mask, rows, cols)
        if request.key_lengths is not None:
            places = torch.arange(cols.start, cols.stop, device=device)
            yield (places >= request.key_lengths[:, None])[:, None, None, None, :]
        if request.query_lengths is not None:
            places = torch.arange(rows.start, rows.stop, device=device)
            yield (places >= request.query_lengths[:, None])[:, None, None, :, None]
        if request.causal or request.window is not None:
            at = torch.arange(rows.start, rows.stop, device=device) + (request.lk - request.lq)
            distance = torch.arange(cols.start, cols.stop, device=device) - at[:, None]
            if request.causal and cols.stop - 1 > rows.start + request.lk - request.lq:
                yield distance > 0
            if request.window is not None:
                yield distance.abs() >= request.window

    def part(self, x: Tensor, rows: slice, cols: slice) -> Tensor:
        """The tile of a mask or bias, (Lq, Lk) or (B|1, Hq|1, Lq|1, Lk|1), shaped to broadcast over heads' groups."""
        if x.dim() == 2:
            return x[rows, cols]
        x = x[:, :, rows if x.shape[2] > 1 else slice(None), cols if x.shape[3] > 1 else slice(None)]
        return self.grouped(x) if x.shape[1] > 1 else x.unsqueeze(1)

    def drop(self, weights: Tensor, rows: slice, cols: slice) -> Tensor:
        """Dropout that the backward pass can repeat: each tile has a generator of its own."""
        if not self.request.dropout:
            return weights
        seed = hash((self.seed, rows.start, cols.start)) % 2**63
        generator = torch.Generator(weights.device).manual_seed(seed)
        kept = torch.rand(weights.shape, generator=generator, device=weights.device) >= self.request.dropout
        return weights * kept / (1 - self.request.dropout)

    def outer(self, rows: Tensor, keys: Tensor, cols: slice) -> Tensor:
        """(B, Hkv, G, rows, D) with keys (B, Hkv, Lk, D) → (B, Hkv, G, rows, cols); a group is folded into rows."""
        product = rows.flatten(2, 3) @ keys[:, :, cols].transpose(-2, -1)
        return product.unflatten(2, rows.shape[2:4])

    def times_keys(self, tile: Tensor, keys: Tensor, cols: slice) -> Tensor:
        """(B, Hkv, G, rows, cols) with keys (B, Hkv, Lk, D) → (B, Hkv, G, rows, D)."""
        return (tile.flatten(2, 3) @ keys[:, :, cols]).unflatten(2, tile.shape[2:4])

    def times_queries(self, tile: Tensor, rows: Tensor) -> Tensor:
        """(B, Hkv, G, rows, cols) with rows (B, Hkv, G, rows, D) → (B, Hkv, cols, D), summed over the group."""
        return tile.flatten(2, 3).transpose(-2, -1) @ rows.flatten(2, 3)


class Gradients:
    """The gradients being summed up, in the accumulating dtype."""

    def __init__(self, tiles: Tiles, bias: Tensor | None):
        self.tiles = tiles
        self.query, self.key, self.value = (torch.zeros_like(x) for x in (tiles.query, tiles.key, tiles.value))
        self.bias = None if bias is None else torch.zeros_like(bias, dtype=tiles.dtype)

    def add_bias(self, grad_scores: Tensor, rows: slice, cols: slice) -> None:
        if self.bias is not None:
            target = self.tiles.part(self.bias, rows, cols)
            target += grad_scores.sum_to_size(target.shape)

    def in_shape_of(
        self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        of_bias = query.new_empty(0) if self.bias is None or bias is None else self.bias.to(bias.dtype)
        of_query = self.query.flatten(1, 2).to(query.dtype)
        return of_query, self.key.to(key.dtype), self.value.to(value.dtype), of_bias


def _blocks(first: int, last: int, size: int) -> Iterator[slice]:
    for start in range(first, last, size):
        yield slice(start, min(start + size, last))
