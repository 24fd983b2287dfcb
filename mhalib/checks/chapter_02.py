"""Exercises of chapter 02, a single head."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import mhalib
from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property

# ------------------------------------------------------------------------------------------------------ 02.attend


def attend(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Output (..., Lq, Dv) and weights (..., Lq, Lk) of scaled dot-product attention."""
    four = [x[(None,) * (4 - x.ndim)] for x in (query, key, value)]
    output, weights = mhalib.attention(*four, backend="reference", return_weights=True)
    return output.reshape(*query.shape[:-1], -1), weights.reshape(*query.shape[:-1], -1)


def _attend_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, *shape: int, lk: int, dv: int, size: float = 1.0, gradients: tuple[str, ...] = ()) -> Case:
        """`shape` is that of the query, (..., Lq, D)."""
        front, dims = shape[:-2], shape[-1]
        shapes = {"query": shape, "key": (*front, lk, dims), "value": (*front, lk, dv)}
        arguments = {name: torch.randn(s, generator=generator, dtype=torch.float64) for name, s in shapes.items()}
        arguments["query"] *= size
        return Case(name, arguments, gradients)

    plain = case("5 queries, 7 keys", 5, 8, lk=7, dv=3, gradients=("query", "key", "value"))
    order = torch.randperm(7, generator=generator)
    shuffled = {name: x if name == "query" else x[order] for name, x in plain.arguments.items()}
    return [
        plain,
        Case("the same keys, shuffled", shuffled),
        case("one query", 1, 16, lk=6, dv=16),
        case("as many keys as numbers", 4, 9, lk=9, dv=5),
        case("2 sequences of 3 heads", 2, 3, 5, 4, lk=6, dv=7),
        case("scores in the thousands", 3, 8, lk=5, dv=8, size=4000.0),
    ]


def _scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    return query @ key.mT * scale


def _attend_with(scale=lambda q, k, v: 1 / math.sqrt(q.shape[-1]), softmax=lambda scores: scores.softmax(-1)):
    """A head with one thing different."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        weights = softmax(_scores(query, key, scale(query, key, value)))
        return weights @ value, weights

    return mistaken


def _rows_sum_to_one(case: Case, got: Outcome, want: Outcome) -> bool:
    total = got.value[1].sum(dim=-1)
    return torch.allclose(total, torch.ones_like(total))


def _only_output(case: Case, got: Outcome, want: Outcome) -> bool:
    return isinstance(got.value, Tensor) and got.value.shape == want.value[0].shape


def _swapped(case: Case, got: Outcome, want: Outcome) -> bool:
    first, second = got.value
    return torch.allclose(first, want.value[1]) and torch.allclose(second, want.value[0])


ATTEND = Exercise(
    id="02.attend",
    points=4,
    answer="attend",
    cases=_attend_cases,
    reference=attend,
    properties=(
        Property.equal(),
        Property.each("the weights of each query sum to 1", _rows_sum_to_one),
        Property(
            "the order of the keys does not matter",
            lambda e: torch.allclose(e.got("5 queries, 7 keys")[0], e.got("the same keys, shuffled")[0]),
        ),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "no scale",
            "The scores grow with the number of entries in a query. Which step of the formula keeps their size the "
            "same whatever that number is?",
            _attend_with(scale=lambda q, k, v: 1.0),
        ),
        Finding.like(
            "divided by d",
            "You divided by the variance of the scores. What has to be divided by to make the variance 1?",
            _attend_with(scale=lambda q, k, v: 1 / q.shape[-1]),
        ),
        Finding.like(
            "scale from the length",
            "Your scale depends on how many keys there are. It belongs to the sum inside one score: how many terms "
            "does that have?",
            _attend_with(scale=lambda q, k, v: 1 / math.sqrt(k.shape[-2])),
        ),
        Finding.like(
            "softmax over the queries",
            "Sum your weights over one axis, then over the other. For which of them does the total have to be 1, and "
            "for which is it?",
            _attend_with(softmax=lambda scores: scores.softmax(-2)),
        ),
        Finding.like(
            "exponentials overflow",
            "Right for small scores. Scores in the thousands have exponentials that no format holds: what may be "
            "subtracted from all scores of a row without changing its weights?",
            _attend_with(softmax=lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True)),
        ),
        Finding.any(
            "only the output",
            "Two things are asked for: the output and the weights, in this order.",
            _only_output,
        ),
        Finding.any("output and weights swapped", "Both are there, in the wrong order: the output first.", _swapped),
    ),
)

# --------------------------------------------------------------------------------------------------- 02.self_rate

N_TOKENS = 16


def predict_self_rate() -> dict[str, float]:
    """Share of the rows whose largest weight is on the token itself, for 16 random tokens of 64 numbers."""
    return {"tied": 1.0, "two matrices": 1 / N_TOKENS}


def _near(key: str, room: float):
    return lambda case, got, want: abs(got.value[key] - want.value[key]) < room


def _guessed(tied: tuple[float, float], free: tuple[float, float]):
    """Whether both predictions lie in the given ranges."""

    def test(case: Case, got: Outcome, want: Outcome) -> bool:
        pairs = ((got.value["tied"], tied), (got.value["two matrices"], free))
        return all(low <= guess <= high for guess, (low, high) in pairs)

    return test


FORM = "Return a dict with two numbers from 0 to 1, as the docstring shows."

SELF_RATE = Exercise(
    id="02.self_rate",
    points=2,
    answer="predict_self_rate",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_self_rate,
    properties=(
        Property.each("two shares between 0 and 1", _guessed(tied=(0, 1), free=(0, 1)), hint=FORM),
        Property.each("tied: within 0.02 of what is measured", _near("tied", 0.02)),
        Property.each("two matrices: within 0.02 of what is measured", _near("two matrices", 0.02)),
    ),
    findings=(
        Finding.any(
            "in percent",
            "A share is a number from 0 to 1.",
            lambda case, got, want: max(got.value.values()) > 1,
        ),
        Finding.any(
            "a head always looks at itself",
            "With two random matrices a query and its own key are as unrelated as a query and any other key.",
            _guessed(tied=(0.98, 1), free=(0.5, 1)),
        ),
        Finding.any(
            "chance in both",
            "With query = key the score of a token with itself is a sum of squares. How large is it, and how large "
            "are the others?",
            _guessed(tied=(0, 0.2), free=(0.0425, 0.0825)),
        ),
        Finding.any(
            "the other way round",
            "You gave the number of one case to the other. In which of them are a token's query and key equal?",
            _guessed(tied=(0, 0.2), free=(0.9, 1)),
        ),
        Finding.any(
            "never by chance",
            "Nothing keeps a token from being its own favourite. Among 16 keys that are all alike to a query, how "
            "often does one of them come first?",
            _guessed(tied=(0.98, 1), free=(0, 0.02)),
        ),
    ),
)

# ---------------------------------------------------------------------------------------------- 02.counterexample


def counterexample() -> Tensor:
    """Tokens (L, D) of which one, with query = key = value = x, gives most weight to another."""
    return torch.tensor([[1.0, 0.0], [3.0, 0.0]], dtype=torch.float64)


def _tokens(got: Outcome) -> Tensor:
    x = got.value
    fine = isinstance(x, Tensor) and x.ndim == 2 and x.is_floating_point() and len(x) > 1
    if not (fine and x.isfinite().all()):
        raise ValueError("not tokens")
    return x.double()


def _margin(got: Outcome) -> float:
    """Largest weight on another token minus weight on oneself, in the row where that is largest."""
    x = _tokens(got)
    weights = (x @ x.T / math.sqrt(x.shape[1])).softmax(dim=-1)
    others = weights.masked_fill(torch.eye(len(x), dtype=torch.bool), -math.inf)
    return (others.amax(dim=-1) - weights.diagonal()).max().item()


def _equal_lengths(case: Case, got: Outcome, want: Outcome) -> bool:
    length = _tokens(got).norm(dim=-1)
    return torch.allclose(length, length[:1].expand_as(length), rtol=1e-3) and bool(length[0] > 0)


COUNTEREXAMPLE = Exercise(
    id="02.counterexample",
    points=3,
    answer="counterexample",
    cases=lambda seed: [Case("your tokens")],
    reference=counterexample,
    properties=(
        Property.each("a matrix (L, D) of finite floats, L at least 2", lambda case, got, want: _tokens(got).numel()),
        Property.each(
            "in some row the largest weight is on another token", lambda case, got, want: _margin(got) > 1e-6
        ),
    ),
    findings=(
        Finding.any(
            "one token",
            "A token that is alone has nobody else to look at.",
            lambda case, got, want: got.value.ndim == 1 or len(got.value) < 2,
        ),
        Finding.any(
            "whole numbers",
            "A softmax needs floating-point numbers: give the tensor such a dtype.",
            lambda case, got, want: not got.value.is_floating_point(),
        ),
        Finding.any(
            "nothing but zeros",
            "All your scores are 0, so all weights are equal and nobody wins.",
            lambda case, got, want: not _tokens(got).any(),
        ),
        Finding.any(
            "equal lengths",
            "Your tokens are all of the same length. For those, x · y is at most x · x (Cauchy and Schwarz): no other "
            "token can win. What else may differ?",
            _equal_lengths,
        ),
        Finding.any(
            "lengths differ, directions too",
            "The lengths differ, which is needed. Now look at the row of the *short* token: for another token to win "
            "there, should it point in the same direction, or away?",
            lambda case, got, want: _margin(got) <= 1e-6,
        ),
    ),
)

# --------------------------------------------------------------------------------------------------- 02.jacobian


def jacobian(p: Tensor) -> Tensor:
    """The derivative (..., n, n) of a softmax by its scores, from the weights p (..., n)."""
    return torch.diag_embed(p) - p[..., :, None] * p[..., None, :]


def _jacobian_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def weights(*shape: int, size: float = 1.0) -> dict[str, Tensor]:
        scores = torch.randn(shape, generator=generator, dtype=torch.float64) * size
        return {"p": scores.softmax(dim=-1)}

    return [
        Case("5 weights", weights(5)),
        Case("one weight", weights(1)),
        Case("3 rows of 4", weights(3, 4)),
        Case("4 rows of 4", weights(4, 4)),
        Case("2 heads of 3 rows of 6", weights(2, 3, 6)),
        Case("one takes nearly all", weights(6, size=20.0)),
    ]


JACOBIAN = Exercise(
    id="02.jacobian",
    points=3,
    answer="jacobian",
    cases=_jacobian_cases,
    reference=jacobian,
    properties=(
        Property.equal("equals the derivative"),
        Property.each("each row sums to 0", lambda case, got, want: (got.value.sum(dim=-1).abs() < 1e-9).all()),
        Property.each(
            "is symmetric", lambda case, got, want: torch.allclose(got.value, got.value.mT, rtol=0, atol=1e-12)
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "the diagonal alone",
            "Your diagonal, p (1 − p), is how a weight answers to its *own* score. Raising another score takes weight "
            "away too: those derivatives are not on the diagonal.",
            lambda p: torch.diag_embed(p * (1 - p)),
        ),
        Finding.like(
            "the diagonal is missing",
            "Your rows do not sum to 0, and yet adding one number to all scores changes no weight. Which term is "
            "missing where j = m?",
            lambda p: -p[..., :, None] * p[..., None, :],
        ),
        Finding.like(
            "sign turned round",
            "By your matrix a weight falls when its own score rises.",
            lambda p: p[..., :, None] * p[..., None, :] - torch.diag_embed(p),
        ),
        Finding.like(
            "1 in the place of p",
            "On the diagonal the derivative is p (1 − p): where p is near 0 it has to be near 0 as well.",
            lambda p: torch.eye(p.shape[-1], dtype=p.dtype) - p[..., :, None] * p[..., None, :],
        ),
        Finding.like(
            "one sum over all rows",
            "Right for one row. For several, each row of weights has a matrix of its own: products of weights from "
            "different rows do not occur in it.",
            lambda p: torch.diag_embed(p) - p.mT @ p if p.ndim > 1 else torch.diag(p) - torch.outer(p, p),
        ),
        Finding(
            "one row only",
            "Right for one row. p may have dimensions in front, (..., n): `torch.diag` and `torch.outer` know nothing "
            "of them. Which functions do?",
            lambda e: all(e.same(got, want) == (case.arguments["p"].ndim == 1) for case, got, want in e.rows()),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------ 02.repair


def repaired(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention (B, L, H, D) of heads that stand behind the length."""
    first = [x.transpose(1, 2) for x in (query, key, value)]  # (B, H, L, D)
    return mhalib.attention(*first, backend="reference").transpose(1, 2)


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, *shape: int, lk: int) -> Case:
        shapes = {"query": shape, "key": (shape[0], lk, *shape[2:]), "value": (shape[0], lk, *shape[2:])}
        return Case(name, {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()})

    company = case("more keys than queries", 1, 4, 2, 4, lk=7)
    return [
        case("2 sequences, 3 heads", 2, 5, 3, 8, lk=5),
        case("as many heads as positions", 1, 4, 4, 6, lk=4),
        company,
        Case("its first query alone", {**company.arguments, "query": company.arguments["query"][:, :1]}),
    ]


def _repaired_with(dim: int = 2, width=lambda q: q.shape[3], first: bool = False):
    """The program of the exercise, with one choice or more still wrong."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = torch.einsum("bihd,bjhd->bijh", query, key) / math.sqrt(width(query))
        output = torch.einsum("bijh,bjhd->bihd", scores.softmax(dim=dim), value)
        return output.transpose(1, 2) if first else output

    return mistaken


def _width(query: Tensor) -> int:
    return query.shape[2] * query.shape[3]


def _company(evidence: Evidence) -> bool:
    company, alone = evidence.got("more keys than queries"), evidence.got("its first query alone")
    return torch.allclose(company[:, :1], alone)


REPAIR = Exercise(
    id="02.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("equals the formula in each head"),
        Property("a query alone gets the same answer as in company", _company),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Two lines of it are wrong: one decides which numbers add up to "
            "1, the other how large the scores are.",
            _repaired_with(dim=1, width=_width),
        ),
        Finding.like(
            "the axis is still wrong",
            "The scale is right now. The scores are laid out (B, query, key, head): which of these has to sum to 1?",
            _repaired_with(dim=1),
        ),
        Finding.like(
            "the scale is still wrong",
            "The weights add up to 1 now. How many products are summed in one score of one head?",
            _repaired_with(width=_width),
        ),
        Finding.like(
            "softmax over the heads",
            "The last axis is the right one for scores laid out (B, head, query, key). What stands last here?",
            _repaired_with(dim=-1),
        ),
        Finding.like(
            "softmax over the heads, and the scale",
            "Look again at both lines. The last axis of these scores is not the keys, and a score is a sum over one "
            "head's numbers only.",
            _repaired_with(dim=-1, width=_width),
        ),
        Finding.like(
            "heads in front",
            "The numbers are right. The caller hands in (B, L, H, D) and wants that order back.",
            _repaired_with(first=True),
        ),
    ),
)

EXERCISES = (ATTEND, SELF_RATE, COUNTEREXAMPLE, JACOBIAN, REPAIR)
