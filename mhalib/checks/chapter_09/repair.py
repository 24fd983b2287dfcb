"""Exercise 09.repair: a kernel over a part of the keys, to be repaired."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property


def repaired(query: Tensor, key: Tensor, value: Tensor, begin: int, end: int, block: int) -> tuple[Tensor, Tensor]:
    """Output (n, Dv) and log-sum-exp (n,) over the keys from `begin` to before `end`, those that exist."""
    scores = query @ key[begin:end].T / math.sqrt(query.shape[1])
    lse = scores.logsumexp(dim=1) if scores.shape[1] else scores.new_full(scores.shape[:1], -math.inf)
    weights = (scores - lse[:, None]).exp()
    return weights @ value[begin:end], lse


def _load(x: Tensor, rows: Tensor) -> Tensor:
    return torch.where((rows < len(x))[:, None], x[rows.clamp(max=len(x) - 1)], 0.0)


def _behind_split_or_text(keys: Tensor, length: int, end: int) -> Tensor:
    return (keys >= end) | (keys >= length)


def _split_with(
    hidden: Callable = _behind_split_or_text,
    pivot: Callable = lambda maximum: maximum.masked_fill(maximum == -math.inf, 0.0),
    divide: Callable = lambda output, total: output / total.masked_fill(total == 0, 1.0)[:, None],
    finish: Callable = lambda output, lse: (output, lse),
):
    """The kernel of the exercise, with one choice or more still wrong."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor, begin: int, end: int, block: int) -> tuple[Tensor, Tensor]:
        maximum = query.new_full((len(query),), -math.inf)
        total, output = query.new_zeros(len(query)), query.new_zeros(len(query), value.shape[1])
        for start in range(begin, end, block):
            keys = start + torch.arange(block)
            scores = query @ _load(key, keys).T / math.sqrt(query.shape[1])
            scores = scores.masked_fill(hidden(keys, len(key), end), -math.inf)
            new_maximum = torch.maximum(maximum, scores.amax(dim=1))
            shift = pivot(new_maximum)
            weights, rescale = (scores - shift[:, None]).exp(), (maximum - shift).exp()
            total = total * rescale + weights.sum(dim=1)
            output = output * rescale[:, None] + weights @ _load(value, keys)
            maximum = new_maximum
        return finish(divide(output, total), pivot(maximum) + total.log())

    return mistaken


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def tensors(n: int, lk: int) -> dict[str, Tensor]:
        shapes = {"query": (n, 8), "key": (lk, 8), "value": (lk, 5)}
        return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}

    shared = tensors(3, 45)
    splits = [
        Case(f"keys {begin} to {begin + 19} of 45", {**shared, "begin": begin, "end": begin + 20, "block": 8})
        for begin in (0, 20, 40, 60)
    ]
    whole = {**tensors(2, 32), "begin": 0, "end": 32, "block": 8}
    return [*splits, Case("one split, whole tiles", whole), Case("one query", {**tensors(1, 21), **SPLIT})]


SPLIT = {"begin": 8, "end": 18, "block": 4}


def _merged(evidence: Evidence) -> bool:
    """The four splits, weighted by their shares of the sum, are attention to all 45 keys."""
    rows = [(case, got.value) for case, got, _ in evidence.rows() if case.name.endswith("of 45")]
    lse = torch.stack([value[1] for _, value in rows])
    output = torch.stack([value[0] for _, value in rows])
    shares = (lse - lse.logsumexp(dim=0)).exp()
    case = rows[0][0].arguments
    want, _ = repaired(case["query"], case["key"], case["value"], 0, 45, 8)
    return torch.allclose((shares[..., None] * output).sum(dim=0), want)


def _painted(output: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    return output.nan_to_num(nan=0.0), lse.nan_to_num(nan=0.0, neginf=-math.inf)


def _empty_lse(case: Case, got: Outcome) -> Tensor:
    """The log-sum-exp of a split that lies behind the text."""
    if case.arguments["begin"] < len(case.arguments["key"]):
        raise ValueError("has keys")
    return got.value[1]


def _same(x: Tensor) -> Tensor:
    return x


def _bare(output: Tensor, total: Tensor) -> Tensor:
    return output / total[:, None]


REPAIR = Exercise(
    id="09.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("equals attention to the keys of the split"),
        Property("the splits of a text, merged, give attention to the whole", _merged),
        Property.each("no NaN", lambda case, got, want: not any(x.isnan().any() for x in got.value)),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Add up the keys that each split counts. And compute by hand what "
            "the first tile of a split does that lies behind the text.",
            _split_with(hidden=lambda keys, lk, end: keys >= lk, pivot=_same, divide=_bare),
        ),
        Finding.like(
            "into the next split",
            "No NaN any more. A split of 20 keys in tiles of 8: to which split do the last four keys of its third tile "
            "belong?",
            _split_with(hidden=lambda keys, lk, end: keys >= lk),
        ),
        Finding.like(
            "still NaN",
            "Each key is counted once now. In a tile without any key all scores are −∞, and so is their maximum: what "
            "is the one minus the other?",
            _split_with(pivot=_same, divide=_bare),
        ),
        Finding.like(
            "nothing divided by nothing",
            "The exponentials are right now. What is the output of a split whose sum is 0 divided by?",
            _split_with(divide=_bare),
        ),
        Finding.like(
            "NaN painted over",
            "The output is right. But a log-sum-exp of 0 says that the empty split weighs as much as one key with "
            "score 0: what is the logarithm of a sum of nothing?",
            _split_with(pivot=_same, divide=_bare, finish=_painted),
            _split_with(finish=lambda output, lse: (output, lse.masked_fill(lse == -math.inf, 0.0))),
        ),
        Finding.like(
            "missing keys count",
            "Splits that end before the text are right. A key behind the text is loaded as zeros: is its score "
            "nothing, or is it 0?",
            _split_with(hidden=lambda keys, lk, end: keys >= end),
        ),
        Finding.any(
            "plus infinity",
            "An empty split with a log-sum-exp of +∞ wins against all others when they are merged. Which sign has the "
            "logarithm of a very small sum?",
            lambda case, got, want: bool((_empty_lse(case, got) == math.inf).all()),
        ),
        Finding.any(
            "a large number for infinity",
            "With a large negative number in the place of −∞ all hidden keys of an empty split get equal weights, and "
            "its log-sum-exp is a number. What would two such splits, and nothing else, give when merged?",
            lambda case, got, want: bool(
                (_empty_lse(case, got) < -1e3).all() and _empty_lse(case, got).isfinite().all()
            ),
        ),
    ),
)
