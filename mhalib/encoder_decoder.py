"""A recurrent encoder-decoder with soft alignment between its halves, or with one vector: R models side by side.

Sources: Bahdanau, Cho, Bengio 2015, arXiv:1409.0473, §3 and appendix A; Luong, Pham, Manning 2015, arXiv:1508.04025,
§3; Cho et al. 2014, arXiv:1406.1078, §2.2 (one vector at every step).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from mhalib.alignment import additive_scores, dot_scores
from mhalib.arguments import check_flags, check_tensors, whole_numbers
from mhalib.recurrent import Annotations, Encoder, RunEmbedding, RunGRU, RunLinear

#: What takes the place of the softmax: from scores (R, B, T, L), -inf where the source ends, and the number of the
#: first of these T output steps, to weights of the same shape.
Weigh = Callable[[Tensor, int], Tensor]

SCORES = ("additive", "dot", "general", "table")
ASKS = ("previous", "current")


class EncoderDecoder(nn.Module):
    """A recurrent encoder and a recurrent decoder, with soft alignment between them or with one vector.

    R models ("runs") stand side by side in one tensor and share nothing: R random starts cost little more than one.

    Args:
        runs: R.
        source_size, target_size: numbers of symbols, symbol 0 included. It pads, and starts the target.
        score: "additive", "dot", "general"; "table": a learned number for each output step and source position,
            which no input changes; None: each step gets the encoder's last state, and nothing else of the source.
        asks: the state that asks at step t: "previous", the one before step t, whose context enters the recurrence
            (Bahdanau); "current", the one after it, whose context meets it at the read-out only (Luong).
        both_ways: the encoder reads forwards and backwards, each with half the width; False: forwards only.
        hidden, embedding, alignment: widths of states, of embedded symbols, and of additive attention (A).
        table: (output steps, source length) of score="table".

    Source: Bahdanau et al. 2015, §3; Luong et al. 2015, §3, without input feeding; Cho et al. 2014, arXiv:1406.1078,
    §2.2, for one vector at every step.
    """

    def __init__(
        self,
        runs: int,
        source_size: int,
        target_size: int,
        *,
        score: str | None = "additive",
        asks: str = "previous",
        both_ways: bool = True,
        hidden: int = 32,
        embedding: int = 16,
        alignment: int = 16,
        table: tuple[int, int] | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        runs, hidden, embedding, alignment = whole_numbers(
            runs=runs, hidden=hidden, embedding=embedding, alignment=alignment
        )
        source_size, target_size = whole_numbers(2, source_size=source_size, target_size=target_size)
        check_flags(both_ways=both_ways)
        _check_kind(score, asks, table)
        self.runs, self.score, self.asks = runs, score, asks
        self.encoder = Encoder(runs, source_size, hidden, embedding=embedding, both_ways=both_ways, dtype=dtype)
        self.embed = RunEmbedding(runs, target_size, embedding, dtype=dtype)
        self.start = RunLinear(runs, hidden, hidden, dtype=dtype)
        self.recurrence = RunGRU(runs, embedding, hidden, dtype=dtype)
        if self.feeds_context:
            self.from_context = RunLinear(runs, hidden, 3 * hidden, bias=False, dtype=dtype)
        if score == "additive":
            self.query_proj = RunLinear(runs, hidden, alignment, bias=False, dtype=dtype)  # W
            self.key_proj = RunLinear(runs, hidden, alignment, dtype=dtype)  # U
            self.v = nn.Parameter(torch.empty(runs, 1, alignment, dtype=dtype).uniform_(-1, 1) / math.sqrt(alignment))
        elif score == "general":
            self.query_proj = RunLinear(runs, hidden, hidden, bias=False, dtype=dtype)  # W
        elif score == "table":
            self.table = nn.Parameter(torch.zeros(runs, 1, *(table or ()), dtype=dtype))
        self.combine = RunLinear(runs, 2 * hidden, hidden, dtype=dtype)
        self.readout = RunLinear(runs, hidden, target_size, dtype=dtype)

    @property
    def feeds_context(self) -> bool:
        """Does what is read from the source enter the recurrence, or only the read-out?"""
        return self.asks == "previous" or self.score is None

    def encode(self, source: Tensor, lengths: Tensor) -> Annotations:
        """The encoder's states for source (R, B, L) of symbols, with lengths (R, B) from 1 to L."""
        return self.encoder(source, lengths)

    def keys(self, read: Annotations) -> Tensor:
        """What the states are compared by, once for all steps: U times the states for "additive", else they."""
        return self.key_proj(read.states) if self.score == "additive" else read.states

    def scores(self, state: Tensor, keys: Tensor, real: Tensor, step: int = 0) -> Tensor:
        """Scores (R, B, T, L) of decoder states (R, B, T, hidden), -inf where the source ends.

        Args:
            keys: (R, B, L, ...), from `keys`.
            real: (R, B, L) bool, of `encode`.
            step: the number of the first of these T steps, for score="table".
        """
        if self.score == "table":
            steps, length = self.table.shape[2:]
            if step + state.shape[2] > steps or keys.shape[2] > length:
                raise ValueError(
                    f"table: got {step + state.shape[2]} steps and {keys.shape[2]} source positions; accepted are up "
                    f"to the {steps} and {length} that it was made for"
                )
            found = self.table[:, :, step : step + state.shape[2], : keys.shape[2]].expand(*state.shape[:2], -1, -1)
        elif self.score == "additive":
            found = additive_scores(self.query_proj(state), keys, self.v)
        else:
            found = dot_scores(self.query_proj(state) if self.score == "general" else state, keys)
        return found.masked_fill(~real[:, :, None], -math.inf)

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor, weigh: Weigh | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits (R, B, T, target_size) and weights (R, B, T, L), with the right symbol before each step given.

        Args:
            source, lengths: as `encode` takes them.
            target: (R, B, T) of symbols; the model sees target[..., t - 1] at step t.
            weigh: takes the place of the softmax over the source.
        """
        _check_target(target, source)
        before = torch.cat((torch.zeros_like(target[..., :1]), target[..., :-1]), dim=-1)
        projected = self.recurrence.project(self.embed(before)).unbind(2)
        read, keys, state = self._begin(source, lengths)
        states, contexts, weights = [], [], []
        if not self.feeds_context:  # no state depends on a context: the states first, then all steps read at once
            for step in projected:
                state = self.recurrence.step(step, state)
                states.append(state)
            every = torch.stack(states, dim=2)
            context, found = self._read(every, read, keys, 0, weigh)
            return self._read_out(every, context), found
        for number, step in enumerate(projected):
            state, context, found = self._step(step, state, read, keys, number, weigh)
            states.append(state)
            contexts.append(context)
            weights.append(found)
        logits = self._read_out(torch.stack(states, dim=2), torch.stack(contexts, dim=2))
        return logits, None if self.score is None else torch.cat(weights, dim=2)

    @torch.no_grad()
    def translate(
        self, source: Tensor, lengths: Tensor, steps: int, weigh: Weigh | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The symbol with the largest logit at each step, (R, B, steps), and weights (R, B, steps, L)."""
        (steps,) = whole_numbers(steps=steps)
        read, keys, state = self._begin(source, lengths)
        symbols, weights = [torch.zeros_like(source[..., 0])], []
        for number in range(steps):
            projected = self.recurrence.project(self.embed(symbols[-1]))
            state, context, found = self._step(projected, state, read, keys, number, weigh)
            symbols.append(self._read_out(state, context).argmax(dim=-1))
            weights.append(found)
        return torch.stack(symbols[1:], dim=2), None if self.score is None else torch.cat(weights, dim=2)

    def _begin(self, source: Tensor, lengths: Tensor) -> tuple[Annotations, Tensor, Tensor]:
        """Annotations, keys, and the decoder's first state."""
        read = self.encode(source, lengths)
        return read, self.keys(read), torch.tanh(self.start(read.last))

    def _step(
        self, projected: Tensor, state: Tensor, read: Annotations, keys: Tensor, number: int, weigh: Weigh | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The next state (R, B, hidden), the context (R, B, hidden) of this step, its weights (R, B, 1, L)."""
        if not self.feeds_context:
            state = self.recurrence.step(projected, state)
        context, weights = read.last, None
        if self.score is not None:
            every, weights = self._read(state[:, :, None], read, keys, number, weigh)
            context = every[:, :, 0]
        if self.feeds_context:
            state = self.recurrence.step(projected + self.from_context(context), state)
        return state, context, weights

    def _read(
        self, state: Tensor, read: Annotations, keys: Tensor, number: int, weigh: Weigh | None
    ) -> tuple[Tensor, Tensor]:
        """Contexts (R, B, T, hidden) and weights (R, B, T, L) for states (R, B, T, hidden)."""
        scores = self.scores(state, keys, read.real, number)
        weights = scores.softmax(dim=-1) if weigh is None else weigh(scores, number)
        if state.shape[2] > 1:
            return weights @ read.states, weights
        # One step: a product of many matrices of one row is slow on a CPU, so it is written out.
        return (weights.mT * read.states).sum(dim=2, keepdim=True), weights

    def _read_out(self, state: Tensor, context: Tensor) -> Tensor:
        return self.readout(torch.tanh(self.combine(torch.cat((context, state), dim=-1))))


def _check_kind(score: str | None, asks: str, table: tuple[int, int] | None) -> None:
    if score not in (*SCORES, None):
        raise ValueError(f"score: got {score!r}; accepted are {', '.join(map(repr, SCORES))} and None, one vector")
    if asks not in ASKS:
        raise ValueError(f"asks: got {asks!r}; accepted are 'previous' (Bahdanau) and 'current' (Luong)")
    if (table is None) != (score != "table") or not (table is None or (isinstance(table, tuple) and len(table) == 2)):
        raise ValueError(f"table: got {table!r} for score={score!r}; accepted is (steps, length) with score='table'")
    if table is not None:
        whole_numbers(**{"table[0]": table[0], "table[1]": table[1]})


def _check_target(target: Tensor, source: Tensor) -> None:
    check_tensors(target=target, source=source)
    if target.ndim != 3 or target.shape[:2] != source.shape[:2] or target.shape[2] == 0:
        raise ValueError(
            f"target: got shape {tuple(target.shape)} for source {tuple(source.shape)}; accepted is (R, B, T), T ≥ 1"
        )
