"""Online softmax in plain torch: attention tile by tile, without ever holding an (Lq, Lk) matrix.

Forward: Milakov and Gimelshein 2018; Dao et al. 2022 (FlashAttention), Algorithm 1. Backward by recomputation from
inputs, output and log-sum-exp: Dao et al. 2022, Algorithm 4. Extra memory grows with Lq + Lk, not with their product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mhalib.arguments import check_whole
from mhalib.backends.request import Request, Result, validate

#: Tile sizes of the backend: on CPU, few large matrix products beat many small ones.
BLOCK_Q, BLOCK_K = 256, 512


def refusal(request: Request) -> str | None:
    if request.return_weights:
        return "tiles are thrown away, the weights are never held together"
    return None


def run(request: Request) -> Result:
    output, lse = _Tiled.apply(*_tensors(request), request, BLOCK_Q, BLOCK_K)
    return Result(output, None, lse if request.return_lse else None)


def attention(
    query: Tensor, key: Tensor, value: Tensor, *, block_q: int = 64, block_k: int = 64, **options: object
) -> tuple[Tensor, Tensor]:
    """Attention in tiles of `block_q` queries by `block_k` keys; the sizes change the rounding, nothing else.

    Args:
        query, key, value, options: as for `mhalib.attention` (mask, bias, causal, window, key_lengths,
            query_lengths, scale, softcap, dropout).
        block_q, block_k: at least 1; they need not divide the lengths.

    Returns:
        (output (B, Hq, Lq, Dv), lse (B, Hq, Lq) in float32 or float64).
    """
    check_whole(block_q=block_q, block_k=block_k)
    request = validate(query, key, value, **options)
    reason = refusal(request)
    if reason:
        raise ValueError(f"return_weights: got True; not to be had here: {reason}")
    return _Tiled.apply(*_tensors(request), request, block_q, block_k)


def merge(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Join attentions of the same queries over disjoint sets of keys, as if over their union.

    Args:
        parts: (output (…, Lq, Dv), lse (…, Lq)) each; at least one. A part that saw no key has lse −inf.

    Returns:
        (output, lse) in the same shapes. Associative and commutative up to rounding.

    Source: the rescaling of Dao et al. 2022, §3.1, applied to finished parts; split-key decoding and ring attention
    (Liu et al. 2023) rest on it.
    """
    if not parts:
        raise ValueError("parts: got none; accepted is at least one (output, lse)")
    lses = torch.stack([lse for _, lse in parts])
    total = torch.logsumexp(lses, dim=0)
    shift = torch.where(total == -torch.inf, 0.0, total)
    shares = torch.exp(lses - shift)
    output = sum(share[..., None] * part.to(share.dtype) for share, (part, _) in zip(shares, parts, strict=True))
    return output.to(parts[0][0].dtype), total


class _Tiled(torch.autograd.Function):
    """(query, key, value, bias | None, request, block_q, block_k) → (output, lse); saves no (Lq, Lk) tensor."""

    @staticmethod
    def forward(ctx, query, key, value, bias, request, block_q, block_k):
        tiles = _Tiles(request, query, key, value, bias, block_q, block_k)
        output = query.new_empty(*query.shape[:3], value.shape[3])
        lse = query.new_empty(query.shape[:3], dtype=request.compute_dtype)
        with _without_autocast(query):
            for rows in tiles.rows():
                tile_output, tile_lse = _forward_rows(tiles, rows)
                output[:, :, rows] = tile_output.flatten(1, 2)
                lse[:, :, rows] = tile_lse.flatten(1, 2)
        ctx.save_for_backward(query, key, value, bias, output, lse)
        ctx.request, ctx.blocks, ctx.seed = request, (block_q, block_k), tiles.seed
        return output, lse

    @staticmethod
    def backward(ctx, grad_output, grad_lse):
        options = ctx.request, ctx.blocks, ctx.seed, ctx.needs_input_grad[3]
        return *_Backward.apply(grad_output, grad_lse, *ctx.saved_tensors, *options), None, None, None


class _Backward(torch.autograd.Function):
    """The gradients of query, key, value and bias; a Function too, so that differentiating them says what is wrong."""

    @staticmethod
    def forward(ctx, grad_output, grad_lse, query, key, value, bias, output, lse, request, blocks, seed, wants_bias):
        tiles = _Tiles(request, query, key, value, bias, *blocks, seed=seed)
        grad_output = grad_output.to(tiles.dtype)
        # rowsum(dO ∘ O) equals rowsum(P ∘ dP), without P. A gradient that arrives at lse enters at the same place.
        delta = tiles.grouped((grad_output * output).sum(-1) - grad_lse)
        # exp(−inf − inf) is 0, as the weights of a dead row should be; exp(−inf − −inf) would be NaN.
        lse = tiles.grouped(lse.masked_fill(lse == -torch.inf, torch.inf))
        grads = _Gradients(tiles, bias if wants_bias else None)
        with _without_autocast(query):
            for rows in tiles.rows():
                _backward_rows(tiles, rows, tiles.grouped(grad_output), delta, lse, grads)
        return grads.in_shape_of(query, key, value, bias)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(
            "the tiled backend computes first derivatives only: its backward cannot be differentiated again. "
            "For second derivatives (create_graph=True, gradient penalties) take backend='reference'"
        )


def _forward_rows(tiles: _Tiles, rows: slice) -> tuple[Tensor, Tensor]:
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


def _backward_rows(tiles, rows, grad_output, delta, lse, grads) -> None:
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


class _Tiles:
    """Inputs in the accumulating dtype, heads grouped as (B, Hkv, G, L, D), cut into blocks of rows and columns."""

    def __init__(self, request, query, key, value, bias, block_q, block_k, *, seed: int | None = None):
        self.request, self.block_q, self.block_k = request, block_q, block_k
        self.dtype, self.bias = request.compute_dtype, bias
        self.query = self.grouped(query.to(self.dtype))
        self.key, self.value = key.to(self.dtype), value.to(self.dtype)
        self.seed = int(torch.randint(2**62, ())) if request.dropout and seed is None else seed

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
        if request.key_lengths is not None and request.batch:
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


class _Gradients:
    """The gradients being summed up, in the accumulating dtype."""

    def __init__(self, tiles: _Tiles, bias: Tensor | None):
        self.tiles = tiles
        self.query, self.key, self.value = (torch.zeros_like(x) for x in (tiles.query, tiles.key, tiles.value))
        self.bias = None if bias is None else torch.zeros_like(bias, dtype=tiles.dtype)

    def add_bias(self, grad_scores: Tensor, rows: slice, cols: slice) -> None:
        if self.bias is not None:
            target = self.tiles.part(self.bias, rows, cols)
            target += grad_scores.sum_to_size(target.shape)

    def in_shape_of(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> tuple[Tensor | None, ...]:
        grads = (self.query.flatten(1, 2), self.key, self.value, self.bias)
        inputs = (query, key, value, bias)
        return tuple(None if grad is None else grad.to(x.dtype) for grad, x in zip(grads, inputs, strict=True))


def _tensors(request: Request) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    return request.query, request.key, request.value, request.bias


def _without_autocast(x: Tensor) -> torch.autocast:
    """Scores are not to be rounded to half precision on their way into the softmax."""
    return torch.autocast(x.device.type, enabled=False)


def _blocks(first: int, last: int, size: int) -> Iterator[slice]:
    for start in range(first, last, size):
        yield slice(start, min(start + size, last))
