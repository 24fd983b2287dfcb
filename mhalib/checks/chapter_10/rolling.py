"""Exercise 10.rolling: a cache that keeps a window of keys."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import mhalib
from mhalib.checks import Case, Exercise, Finding, Outcome, Property
from mhalib.checks.chapter_10._shared import normal
from mhalib.checks.compare import difference


def rolling_step(query: Tensor, key: Tensor, value: Tensor, past: tuple, window: int) -> tuple[Tensor, tuple]:
    """Output (B, H, n, D) of n new tokens, and (keys, values, count): what the next token can still see."""
    return _rolling_with()(query, key, value, past, window)


def _last(keys: Tensor, window: int) -> Tensor:
    return keys[:, :, max(0, keys.shape[2] - (window - 1)) :]


def _rolling_with(
    first: Callable = lambda count, kept: count,
    attend: Callable = lambda q, k, v, window: mhalib.attention(q, k, v, causal=True, window=window),
    before: Callable = lambda x, window: x,
    keep: Callable = _last,
    turn_values: bool = False,
    counted: Callable = lambda count, kept, new: count + new,
):
    """The step, with one choice or more different."""

    def step(query: Tensor, key: Tensor, value: Tensor, past: tuple, window: int) -> tuple[Tensor, tuple]:
        keys, values, count = past
        new = query.shape[2]
        rotary = mhalib.RotaryEmbedding(query.shape[-1])
        at = first(count, keys.shape[2]) + torch.arange(new)
        value = rotary(value, at) if turn_values else value
        keys = before(torch.cat((keys, rotary(key, at)), dim=2), window)
        values = before(torch.cat((values, value), dim=2), window)
        output = attend(rotary(query, at), keys, values, window)
        keys, values = keep(keys, window), keep(values, window)
        return output, (keys, values, counted(count, keys.shape[2], new))

    return step


def _rolling_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, window: int, before: int, new: int, batch: int = 1) -> Case:
        def three(length: int) -> dict[str, Tensor]:
            return {n: normal(generator, batch, 2, length, 8) for n in ("query", "key", "value")}

        empty = (torch.zeros(batch, 2, 0, 8, dtype=torch.float64),) * 2
        past = (*empty, 0)
        if before:
            past = rolling_step(**three(before), past=past, window=window)[1]
        return Case(name, {**three(new), "past": past, "window": window})

    return [
        case("a prompt of 3, window 6", window=6, before=0, new=3, batch=2),
        case("a prompt of 9, window 4", window=4, before=0, new=9),
        case("one token after 2, window 6", window=6, before=2, new=1),
        case("one token after 20, window 4", window=4, before=20, new=1, batch=2),
        case("3 tokens after 20, window 4", window=4, before=20, new=3),
        case("7 tokens after 20, window 4", window=4, before=20, new=7),
        case("2 tokens after 7, window 1", window=1, before=7, new=2),
    ]


def _part(index: int, number: int | None = None):
    """Whether one part of the answer is right: the output, or a number of the state."""

    def test(case: Case, got: Outcome, want: Outcome) -> bool:
        output, (keys, values, count) = got.value
        parts = (output, (keys, values), count)
        expected = (want.value[0], want.value[1][:2], want.value[1][2])
        return not difference(parts[index], expected[index])

    return test


def _first_key_only(case: Case, got: Outcome, want: Outcome) -> bool:
    """One query, and it saw the oldest key alone."""
    one = case.arguments["query"].shape[2] == 1 and case.arguments["past"][0].shape[2] > 0
    return one and torch.allclose(got.value[0], case.arguments["past"][1][:, :, :1])


ROLLING = Exercise(
    id="10.rolling",
    points=5,
    answer="rolling_step",
    cases=_rolling_cases,
    reference=rolling_step,
    properties=(
        Property.each("the output is that of a window over the whole text", _part(0)),
        Property.each("keeps the last window − 1 keys and values, oldest first", _part(1)),
        Property.each("counts all tokens that have passed", _part(2)),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "numbers from 0",
            "Prompts are right, and every step after them is turned as if it began a text. Which number in `past` says "
            "where this step continues?",
            _rolling_with(first=lambda count, kept: 0),
        ),
        Finding.like(
            "numbered by what is kept",
            "Right until the window is full. From then on the number of kept keys stands still, and time does not: "
            "after 20 tokens, what is the position of the next one?",
            _rolling_with(first=lambda count, kept: kept),
        ),
        Finding.any(
            "the corner",
            "A single new token sees the oldest kept key and nothing else in yours. At which corner of the scores is "
            "your mask anchored, and where does the newest token stand?",
            _first_key_only,
        ),
        Finding.like(
            "no window in the mask",
            "Right for one token at a time. With several new tokens the last of them sees more kept keys than its "
            "window holds: the cache alone does not make the window.",
            _rolling_with(attend=lambda q, k, v, window: mhalib.attention(q, k, v, causal=True)),
        ),
        Finding.like(
            "no mask",
            "Right for one token at a time, where everything kept may be seen. With several, the first new token must "
            "not see the last, and the last not the oldest.",
            _rolling_with(attend=lambda q, k, v, window: mhalib.attention(q, k, v)),
        ),
        Finding.like(
            "cut before attending",
            "In a step of 7 tokens with a window of 4, the first new token still needs the kept keys, and the last one "
            "does not. When may the old ones be thrown away?",
            _rolling_with(before=lambda x, window: x[:, :, -window:]),
            _rolling_with(before=_last),
        ),
        Finding.like(
            "keeps the first",
            "The output is right, and what you keep is the beginning of the text. Which keys can the next token see?",
            _rolling_with(keep=lambda x, window: x[:, :, : window - 1]),
        ),
        Finding.like(
            "keeps everything",
            "The output is right. Count what is kept after a long text: it should stop growing.",
            _rolling_with(keep=lambda x, window: x),
        ),
        Finding.like(
            "keeps one too many",
            "The output is right. The window counts the token itself: of a window of 4, how many keys must come from "
            "the past?",
            _rolling_with(keep=lambda x, window: x[:, :, -window:]),
        ),
        Finding.like(
            "minus nought",
            "Right for every window but 1. There nothing is to be kept, and yours keeps everything: what does Python "
            "make of a slice that begins at minus nought?",
            _rolling_with(keep=lambda x, window: x[:, :, -(window - 1) :]),
        ),
        Finding.like(
            "values turned",
            "Only scores should know about positions. Which two of the three tensors meet in a score?",
            _rolling_with(turn_values=True),
        ),
        Finding.like(
            "counts what is kept",
            "Output and cache are right in this step. The count that you return is that of the kept keys: where will "
            "the next token believe itself to be?",
            _rolling_with(counted=lambda count, kept, new: kept),
        ),
    ),
)
