"""The recurrent parts of `mhalib.alignment`, for R models side by side: linear maps, embeddings, a GRU, an encoder.

Every parameter has R as its first dimension, and no number of one model reaches another. A run is one of the R models:
the same network from another random start. Shapes begin (R, B, ...), B sequences for each run.

Source: Cho et al. 2014, arXiv:1406.1078, §2.3 (the gated unit), in the form that torch.nn.GRU documents.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mhalib.arguments import check_tensors, readable, whole_numbers


class Annotations(NamedTuple):
    """What an encoder hands to a decoder."""

    states: Tensor  #: (R, B, L, hidden): one state for each source position
    last: Tensor  #: (R, B, hidden): the last state of each direction, side by side
    real: Tensor  #: (R, B, L) bool: False behind the end of a source


class RunLinear(nn.Module):
    """R independent linear maps: (R, ..., in_features) to (R, ..., out_features), with one dimension or more between.

    Args:
        runs, in_features, out_features: sizes.
        bias: add a vector.
        fan: weights start uniform within ±1/√fan; None: in_features.
    """

    def __init__(
        self,
        runs: int,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        fan: int | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        runs, in_features, out_features, fan = whole_numbers(
            runs=runs, in_features=in_features, out_features=out_features, fan=in_features if fan is None else fan
        )
        bound = 1 / math.sqrt(fan)
        self.weight = nn.Parameter(torch.empty(runs, in_features, out_features, dtype=dtype).uniform_(-bound, bound))
        self.bias = (
            nn.Parameter(torch.empty(runs, 1, out_features, dtype=dtype).uniform_(-bound, bound)) if bias else None
        )

    def forward(self, x: Tensor) -> Tensor:
        check_tensors(x=x)
        if x.ndim < 3 or (x.shape[0], x.shape[-1]) != tuple(self.weight.shape[:2]):
            runs, width = self.weight.shape[:2]
            raise ValueError(f"x: got shape {tuple(x.shape)}; accepted is ({runs}, ..., {width}) with a batch between")
        flat = x.flatten(1, -2)
        mapped = flat @ self.weight if self.bias is None else torch.baddbmm(self.bias, flat, self.weight)
        return mapped.view(*x.shape[:-1], -1)


class RunEmbedding(nn.Module):
    """R independent tables of `symbols` vectors: whole numbers (R, ...) to (R, ..., width)."""

    def __init__(self, runs: int, symbols: int, width: int, *, dtype: torch.dtype | None = None):
        super().__init__()
        runs, symbols, width = whole_numbers(runs=runs, symbols=symbols, width=width)
        self.weight = nn.Parameter(torch.randn(runs, symbols, width, dtype=dtype))

    def forward(self, symbols: Tensor) -> Tensor:
        check_tensors(symbols=symbols)
        runs, number, _ = self.weight.shape
        if symbols.dtype != torch.int64 or symbols.ndim < 2 or symbols.shape[0] != runs:
            raise ValueError(
                f"symbols: got {symbols.dtype} {tuple(symbols.shape)}; accepted is int64 ({runs}, ...), one row a run"
            )
        known = readable(symbols)
        if known is not None and known.numel() and not 0 <= int(known.min()) <= int(known.max()) < number:
            # Beyond its own table, a number would find a vector of the next run.
            raise ValueError(f"symbols: got {int(known.min())} … {int(known.max())}; accepted is 0 … {number - 1}")
        first = torch.arange(0, runs * number, number, device=symbols.device).view(runs, *[1] * (symbols.ndim - 1))
        return F.embedding(symbols + first, self.weight.flatten(0, 1))


class RunGRU(nn.Module):
    """R independent gated recurrent units, one step at a time.

    With reset r and update z, both sigmoids of input and state: n = tanh(W x + b + r ∘ (U h + c)) and
    h' = (1 - z) ∘ n + z ∘ h. The columns of the weights are those of r, z, n.
    """

    def __init__(self, runs: int, width: int, hidden: int, *, dtype: torch.dtype | None = None):
        super().__init__()
        self.hidden = hidden
        self.from_input = RunLinear(runs, width, 3 * hidden, fan=hidden, dtype=dtype)
        self.from_state = RunLinear(runs, hidden, 3 * hidden, fan=hidden, dtype=dtype)

    def project(self, x: Tensor) -> Tensor:
        """What inputs x (R, ..., width) contribute, (R, ..., 3 · hidden): for all steps at once, if they are known."""
        return self.from_input(x)

    def step(self, projected: Tensor, state: Tensor) -> Tensor:
        """The next state (R, B, hidden), from `project(x)` of one step and the state before."""
        gates, candidate = projected.split((2 * self.hidden, self.hidden), dim=-1)
        state_gates, state_candidate = self.from_state(state).split((2 * self.hidden, self.hidden), dim=-1)
        reset, update = torch.sigmoid(gates + state_gates).chunk(2, dim=-1)
        return torch.lerp(torch.tanh(candidate + reset * state_candidate), state, update)


class Encoder(nn.Module):
    """Symbols to one state for each position, by a GRU that reads forwards, or by two that read both ways.

    Args:
        runs, symbols: R, and the number of symbols.
        hidden: width of a state: of both directions together, even then.
        embedding: width of an embedded symbol.
        both_ways: half of a state comes from a GRU that reads from the end of the source.

    Source: Bahdanau et al. 2015, §3.2, for annotations that read both ways.
    """

    def __init__(
        self,
        runs: int,
        symbols: int,
        hidden: int,
        *,
        embedding: int,
        both_ways: bool = True,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        if both_ways and hidden % 2:
            raise ValueError(f"hidden: got {hidden}; accepted is an even number, half of it for each direction")
        self.runs, self.both_ways = runs, both_ways
        self.embed = RunEmbedding(runs, symbols, embedding, dtype=dtype)
        directions = 2 if both_ways else 1  # as 2 · R runs: one loop over the positions serves both
        self.recurrence = RunGRU(directions * runs, embedding, hidden // directions, dtype=dtype)

    def forward(self, source: Tensor, lengths: Tensor) -> Annotations:
        """States of source (R, B, L) int64, of which the first `lengths` (R, B) int64, 1 … L, symbols are real."""
        self._check(source, lengths)
        length = source.shape[2]
        places = torch.arange(length, device=source.device)
        real = places < lengths[..., None]
        turned = (lengths[..., None] - 1 - places).clamp(min=0)  # reversed within each length; then anything
        x, alive = self.embed(source), real
        if self.both_ways:
            x = torch.cat((x, _at(x, turned)))
            alive = torch.cat((real, real))
        state, states = x.new_zeros(x.shape[0], x.shape[1], self.recurrence.hidden), []
        for projected, now in zip(self.recurrence.project(x).unbind(2), alive.unbind(2), strict=True):
            state = torch.where(now[..., None], self.recurrence.step(projected, state), state)  # it stays at the end
            states.append(state)
        found, last = torch.stack(states, dim=2), state
        if self.both_ways:
            forwards, backwards = found.split(self.runs)
            found = torch.cat((forwards, _at(backwards, turned)), dim=-1)
            last = torch.cat(last.split(self.runs), dim=-1)
        return Annotations(found, last, real)

    def _check(self, source: Tensor, lengths: Tensor) -> None:
        check_tensors(source=source, lengths=lengths)
        if source.ndim != 3 or source.shape[2] == 0:
            raise ValueError(f"source: got shape {tuple(source.shape)}; accepted is ({self.runs}, B, L), L ≥ 1")
        if lengths.dtype != torch.int64 or lengths.shape != source.shape[:2]:
            raise ValueError(
                f"lengths: got {lengths.dtype} {tuple(lengths.shape)}; accepted is int64 {tuple(source.shape[:2])}"
            )
        known = readable(lengths)
        if known is not None and known.numel() and not 1 <= int(known.min()) <= int(known.max()) <= source.shape[2]:
            raise ValueError(
                f"lengths: got {int(known.min())} … {int(known.max())}; accepted is 1 … {source.shape[2]}, no source "
                "being empty"
            )


def _at(x: Tensor, places: Tensor) -> Tensor:
    """x (R, B, L, D) at places (R, B, L), for each sequence its own."""
    return x.gather(2, places[..., None].expand_as(x))
