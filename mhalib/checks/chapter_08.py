"""Exercises of chapter 08, flash tiling."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

import mhalib
from mhalib import tiled
from mhalib.checks import Case, Exercise, Finding, Outcome, Property

INF = math.inf
State = tuple[Tensor, Tensor, Tensor]

# -------------------------------------------------------------------------------------------------------- 08.step


def _guard(m: Tensor) -> Tensor:
    return m.masked_fill(m == -INF, 0.0)


def _no_guard(m: Tensor) -> Tensor:
    return m


def _row_maximum(m: Tensor, scores: Tensor) -> Tensor:
    return torch.maximum(m, scores.amax(-1))


def _stepped(
    largest: Callable[[Tensor, Tensor], Tensor] = _row_maximum,
    shift: Callable[[Tensor], Tensor] = _guard,
    rescale: Callable[[Tensor, Tensor], tuple] = lambda m, shift: (torch.exp(m - shift),) * 2,
    finite: bool = True,
) -> Callable[[State, Tensor], State]:
    """One tile more for (maximum, sum, moment), right as it stands, or with one thing different."""

    def step(state: State, scores: Tensor) -> State:
        m, total, moment = state
        new_m = largest(m, scores)
        by = shift(new_m)
        weights = (scores - by[:, None]).exp()
        for_total, for_moment = rescale(m, by)
        terms = weights * (scores.masked_fill(scores == -INF, 0.0) if finite else scores)
        return new_m, for_total * total + weights.sum(-1), for_moment * moment + terms.sum(-1)

    return step


_step = _stepped()


def _step_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def tile(cols: int, around: float = 0.0) -> Tensor:
        return around + torch.randn(3, cols, generator=generator, dtype=torch.float64)

    def hide(scores: Tensor, rows: slice = slice(None)) -> Tensor:
        """One key of each row hidden, and all keys of `rows`."""
        hidden = scores.clone()
        hidden[:, 1] = -INF
        hidden[rows] = -INF
        return hidden

    nothing = torch.full((3,), -INF, dtype=torch.float64), *torch.zeros(2, 3, dtype=torch.float64)
    cases = {
        "the first tile": (nothing, tile(4)),
        "larger scores come": (_step(nothing, tile(5)), tile(4, around=5)),
        "smaller scores come": (_step(nothing, tile(4)), tile(6, around=-5)),
        "scores around 1000": (_step(nothing, tile(3, around=995)), tile(5, around=1000)),
        "hidden keys": (_step(nothing, tile(4)), hide(tile(5), slice(0, 0))),
        "a row that sees nothing yet": (nothing, hide(tile(4), slice(1, 2))),
        "all hidden, after others": (_step(nothing, tile(4)), hide(tile(2), slice(None))),
    }
    return [Case(name, {"state": state, "scores": scores}) for name, (state, scores) in cases.items()]


def _item(index: int) -> Callable[[Case, Outcome, Outcome], bool]:
    def close(case: Case, got: Outcome, want: Outcome) -> bool:
        return torch.allclose(got.value[index], want.value[index], rtol=1e-10, atol=1e-10)

    return close


STEP = Exercise(
    id="08.step",
    points=4,
    answer="step",
    cases=_step_cases,
    reference=_step,
    properties=(
        Property.each("the largest score so far", _item(0)),
        Property.each("the sum", _item(1)),
        Property.each("the moment", _item(2)),
        Property.equal("these three, in shape and dtype"),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "no rescale",
            "Right as long as the maximum stays. What was summed under the old maximum has to be brought to the new "
            "one first.",
            _stepped(rescale=lambda m, by: (1.0, 1.0)),
        ),
        Finding.like(
            "the moment is not rescaled",
            "The sum is right. The moment is a sum of the same exponentials, each times its score: what happens to it "
            "when the maximum rises?",
            _stepped(rescale=lambda m, by: (torch.exp(m - by), 1.0)),
        ),
        Finding.like(
            "rescaled the wrong way",
            "When the maximum rises, what was summed before has to shrink. Is your factor above 1 or below?",
            _stepped(rescale=lambda m, by: (torch.exp(by - m),) * 2),
        ),
        Finding.like(
            "minus infinity from itself",
            "Right once a row has seen a key. Before that its maximum is −∞; what is −∞ − (−∞)?",
            _stepped(shift=_no_guard),
        ),
        Finding.like(
            "zero times minus infinity",
            "Maximum and sum are right. A hidden key has the weight 0 and the score −∞, and your moment multiplies "
            "them.",
            _stepped(finite=False),
        ),
        Finding.like(
            "hidden keys not thought of",
            "Right without masks. With −∞ among the scores you get NaN in two ways: a difference of two infinities, "
            "and a product with one.",
            _stepped(shift=_no_guard, finite=False),
        ),
        Finding.like(
            "the maximum of this tile",
            "Your maximum falls when a tile of small scores comes, and then the exponentials of the earlier ones may "
            "be as large as they like. The maximum of what?",
            _stepped(largest=lambda m, scores: scores.amax(-1)),
        ),
        Finding.like(
            "one maximum for all rows",
            "Each row is a softmax of its own. A row whose scores all lie far below those of another one would lose "
            "all its digits.",
            _stepped(largest=lambda m, scores: torch.maximum(m, scores.max())),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------- 08.merge


def merge(outputs: Tensor, lses: Tensor) -> tuple[Tensor, Tensor]:
    """Output (L, D) and lse (L,) over all keys, of parts (P, L, D) and (P, L) over disjoint sets of keys."""
    return tiled.merge(list(zip(outputs, lses, strict=True)))


def _merge_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def parts(count: int, length: int, around: float = 0.0) -> dict[str, Tensor]:
        outputs = torch.randn(count, length, 5, generator=generator, dtype=torch.float64)
        lses = around + 2 * torch.randn(count, length, generator=generator, dtype=torch.float64)
        return {"outputs": outputs, "lses": lses}

    def blind(given: dict[str, Tensor], where: tuple) -> dict[str, Tensor]:
        """The parts `where` = (parts, rows) have seen nothing: output 0, lse −inf."""
        given["lses"][where], given["outputs"][where] = -INF, 0.0
        return given

    three = parts(3, 6)
    order = torch.tensor([2, 0, 1])
    return [
        Case("3 parts", three),
        Case("the same in another order", {name: x[order] for name, x in three.items()}),
        Case("as many parts as queries", parts(4, 4)),
        Case("one part", parts(1, 3)),
        Case("an lse around 2000", parts(2, 3, around=2000)),
        Case("an lse around −2000", parts(2, 3, around=-2000)),
        Case("one part has seen nothing", blind(parts(3, 4), (1, slice(1, 3)))),
        Case("a query has seen nothing at all", blind(parts(2, 4), (slice(None), 2))),
    ]


def _shares(lses: Tensor) -> Tensor:
    return (lses - _guard(lses.logsumexp(0))).exp()


def _merged(
    shares: Callable[[Tensor], Tensor] = _shares, lse: Callable[[Tensor], Tensor] = lambda lses: lses.logsumexp(0)
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    def mistaken(outputs: Tensor, lses: Tensor) -> tuple[Tensor, Tensor]:
        return (shares(lses)[..., None] * outputs).sum(0), lse(lses)

    return mistaken


MERGE = Exercise(
    id="08.merge",
    points=3,
    answer="merge",
    cases=_merge_cases,
    reference=merge,
    properties=(
        Property.each("the output", _item(0)),
        Property.each("the lse", _item(1)),
        Property(
            "the order of the parts does not matter",
            lambda e: torch.allclose(e.got("3 parts")[0], e.got("the same in another order")[0]),
        ),
        Property.equal("both, in shape and dtype"),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "averaged",
            "The mean gives each part the same say. A part counts for as much as its keys weigh, and its lse tells "
            "how much that is.",
            _merged(shares=lambda lses: torch.ones_like(lses) / len(lses)),
        ),
        Finding.like(
            "exponentials overflow",
            "Right for small numbers. e²⁰⁰⁰ is infinite and e⁻²⁰⁰⁰ is 0 in every format; what may be subtracted from "
            "all lse of a query without changing the shares?",
            _merged(lambda lses: lses.exp() / lses.exp().sum(0), lambda lses: lses.exp().sum(0).log()),
        ),
        Finding.like(
            "minus infinity from itself",
            "Right wherever somebody has seen a key. If nobody has, the merged lse is −∞, and you subtract it from −∞.",
            _merged(shares=lambda lses: (lses - lses.logsumexp(0)).exp()),
        ),
        Finding.like(
            "shares over the queries",
            "Sum your shares over the parts, for one query. They have to sum to 1 there, not over the queries.",
            _merged(shares=lambda lses: lses.softmax(-1)),
        ),
        Finding.like(
            "weighted by the lse",
            "An lse is a logarithm: a part of twice the weight has an lse that is larger by 0.69, not by a factor.",
            _merged(shares=lambda lses: lses / lses.sum(0)),
        ),
        Finding.like(
            "the lse added",
            "The output is right. Sums of exponentials add up, their logarithms do not.",
            _merged(lse=lambda lses: lses.sum(0)),
        ),
        Finding.like(
            "the largest lse",
            "The output is right. The merged lse is *above* the largest one: two parts of equal weight have more "
            "than one of them.",
            _merged(lse=lambda lses: lses.amax(0)),
        ),
    ),
)

# ---------------------------------------------------------------------------------------------------- 08.backward


def backward(query, key, value, output, lse, grad_output, grad_lse) -> tuple[Tensor, ...]:
    """Gradients of query, key and value for a loss that uses the output and the lse; here by autograd, whole."""
    leaves = [x.detach().clone().requires_grad_() for x in (query, key, value)]
    with torch.enable_grad():
        scores = leaves[0] @ leaves[1].T * query.shape[-1] ** -0.5
        results = scores.softmax(-1) @ leaves[2], scores.logsumexp(-1)
    return torch.autograd.grad(results, leaves, (grad_output, grad_lse))


def _backward_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, lq: int, lk: int, *, size: float = 1.0, loss: tuple[float, float] = (1.0, 1.0)) -> Case:
        """`loss`: how much it depends on the output and on the lse."""
        shapes = {"query": (lq, 4), "key": (lk, 4), "value": (lk, 3), "grad_output": (lq, 3), "grad_lse": (lq,)}
        given = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
        given["query"] *= size
        four = [given[n][None, None] for n in ("query", "key", "value")]
        output, lse = mhalib.attention(*four, backend="reference", return_lse=True)
        given |= {"output": output[0, 0], "lse": lse[0, 0]}
        given["grad_output"] *= loss[0]
        given["grad_lse"] *= loss[1]
        return Case(name, given)

    return [
        case("the loss uses both", 5, 7),
        case("as many queries as keys", 6, 6),
        case("only the output is used", 4, 6, loss=(1.0, 0.0)),
        case("only the lse is used", 3, 5, loss=(0.0, 1.0)),
        case("scores in the thousands", 4, 5, size=3000.0),
    ]


def _dots(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1)


def _backward_with(
    into_scores: Callable = lambda P, dP, D, g: P * (dP - D[:, None] + g[:, None]),
    weights: Callable = lambda scores, lse: (scores - lse[:, None]).exp(),
    before: Callable[[int], float] = lambda d: d**-0.5,
    behind: Callable[[int], float] = lambda d: d**-0.5,
) -> Callable[..., tuple[Tensor, ...]]:
    """The formula with one thing different: the gradient at the scores, the weights, or the scale in two places."""

    def mistaken(query, key, value, output, lse, grad_output, grad_lse):
        P = weights(query @ key.T * before(query.shape[-1]), lse)
        dS = into_scores(P, grad_output @ value.T, _dots(grad_output, output), grad_lse)
        tau = behind(query.shape[-1])
        return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output

    return mistaken


BACKWARD = Exercise(
    id="08.backward",
    points=4,
    answer="backward",
    cases=_backward_cases,
    reference=backward,
    properties=(
        Property.each("the gradient of the queries", _item(0)),
        Property.each("the gradient of the keys", _item(1)),
        Property.each("the gradient of the values", _item(2)),
        Property.equal("these three, in shape and dtype"),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "delta omitted",
            "The values' gradient is right. Raising one score takes weight from all other keys of the row: which term "
            "says so?",
            _backward_with(lambda P, dP, D, g: P * (dP + g[:, None])),
        ),
        Finding.like(
            "the gradient of the lse omitted",
            "Right for a loss that uses the output alone. The lse depends on the scores too, and a gradient arrives "
            "there.",
            _backward_with(lambda P, dP, D, g: P * (dP - D[:, None])),
        ),
        Finding.like(
            "the lse pulls the wrong way",
            "Raise a score, and the lse rises. With which sign does its gradient enter?",
            _backward_with(lambda P, dP, D, g: P * (dP - D[:, None] - g[:, None])),
        ),
        Finding.like(
            "the lse pulls at all keys alike",
            "Does a key of weight 0 change the lse as much as a key of weight 1? Look at where your term stands.",
            _backward_with(lambda P, dP, D, g: P * (dP - D[:, None]) + g[:, None]),
        ),
        Finding.like(
            "no scale on the way back",
            "The scores are τ times a product, so their derivative by query and key has a factor, too.",
            _backward_with(behind=lambda d: 1.0),
        ),
        Finding.like(
            "no scale in the scores",
            "Sum a row of the weights that you made again. It has to be 1, as the lse was that of the *scaled* scores.",
            _backward_with(before=lambda d: 1.0),
        ),
        Finding.like(
            "exponentials overflow",
            "Right for small scores. Two exponentials that are infinite each have a quotient that is NaN: take the "
            "difference before the exponential.",
            _backward_with(weights=lambda scores, lse: scores.exp() / lse.exp()[:, None]),
        ),
        Finding.like(
            "delta of the keys",
            "There is one D for each *query*: it is a sum over the keys. Yours is a sum over the queries.",
            _backward_with(lambda P, dP, D, g: P * (dP - (P * dP).sum(0) + g[:, None])),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------ 08.repair


def repaired(query: Tensor, key: Tensor, value: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Output (Lq, D) and natural lse (Lq,)."""
    four = [x[None, None] for x in (query, key, value)]
    output, lse = mhalib.attention(*four, backend="reference", return_lse=True)
    return output[0, 0], lse[0, 0]


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, lq: int, lk: int, block: int, growth: float = 0.0) -> Case:
        shapes = {"query": (lq, 6), "key": (lk, 6), "value": (lk, 6)}
        given = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
        given["key"] *= 1 + growth * torch.arange(lk, dtype=torch.float64)[:, None]
        return Case(name, {**given, "block": block})

    return [
        case("8 keys, blocks of 4", 5, 8, 4),
        case("7 keys, blocks of 3", 4, 7, 3),
        case("6 keys, one block of 6", 3, 6, 6),
        case("5 keys, one block of 8", 4, 5, 8),
        case("scores that grow", 5, 9, 3, growth=0.5),
        case("blocks of one key", 2, 5, 1),
    ]


def _halfway(
    mask: bool = True, rescale: bool = True, lse: Callable = lambda m, total: (m + total.log2()) * math.log(2)
):
    """The program of the exercise with some of its three faults repaired."""

    def program(query: Tensor, key: Tensor, value: Tensor, block: int) -> tuple[Tensor, Tensor]:
        missing = -len(key) % block
        long_key, long_value = (torch.nn.functional.pad(x, (0, 0, 0, missing)) for x in (key, value))
        m, total, output = query.new_full((len(query),), -INF), query.new_zeros(len(query)), torch.zeros_like(query)
        for start in range(0, len(key), block):
            cols = slice(start, start + block)
            scores = query @ long_key[cols].T * (query.shape[1] ** -0.5 / math.log(2))
            if mask:
                scores = scores.masked_fill(torch.arange(start, start + block) >= len(key), -INF)
            new_m = torch.maximum(m, scores.amax(-1))
            weights, factor = torch.exp2(scores - new_m[:, None]), torch.exp2(m - new_m)
            total = factor * total + weights.sum(-1)
            output = (factor[:, None] if rescale else 1) * output + weights @ long_value[cols]
            m = new_m
        return output / total[:, None], lse(m, total)

    return program


def _base_two(m: Tensor, total: Tensor) -> Tensor:
    return m + total.log2()


REPAIR = Exercise(
    id="08.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.each("the output", _item(0)),
        Property.each("the lse", _item(1)),
        Property.equal("both, in shape and dtype"),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Three things are wrong: one at the end of the keys, one from "
            "block to block, one in the last line.",
            _halfway(mask=False, rescale=False, lse=_base_two),
        ),
        Finding.like(
            "only the last block",
            "The last block is right, two faults are left. Try one block for all keys: the output is right then. What "
            "happens to it when a second block comes? And what is the lse of a single score of 0 and one of 1?",
            _halfway(rescale=False, lse=_base_two),
        ),
        Finding.like(
            "only the rescale",
            "From block to block it is right, two faults are left. Give it values that are all 1, in blocks that do "
            "not divide the length; and compare its lse with `torch.logsumexp`.",
            _halfway(mask=False, lse=_base_two),
        ),
        Finding.like(
            "only the lse",
            "The base is right, two faults are left, both in the output. Try one block of just the right size, then "
            "a larger one, then two.",
            _halfway(mask=False, rescale=False),
        ),
        Finding.like(
            "the lse is still in base 2",
            "The output is right. The lse is off by the same factor everywhere; which numbers did your exponential "
            "and your logarithm belong to?",
            _halfway(lse=_base_two),
        ),
        Finding.like(
            "the output is still not rescaled",
            "Right for a single block, and the lse always. When the maximum rises, the sum shrinks; what else was "
            "summed under the old maximum?",
            _halfway(rescale=False),
        ),
        Finding.like(
            "the last block still leaks",
            "Right where the blocks divide the length. Elsewhere the weights do not sum to 1: the keys that were put "
            "in to fill the block have the score 0, and 2⁰ is not 0.",
            _halfway(mask=False),
        ),
        Finding.like(
            "two bases in one lse",
            "The output is right. Your maximum is in units of base 2, and you add a natural logarithm to it.",
            _halfway(lse=lambda m, total: m + total.log()),
        ),
        Finding.like(
            "converted the wrong way",
            "The output is right. log₂ x is larger than ln x; did your lse become smaller?",
            _halfway(lse=lambda m, total: (m + total.log2()) / math.log(2)),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------- 08.moved


def _counted(
    keys: Callable = lambda rows, length, block_q, block_k: min(length, -(-rows.stop // block_k) * block_k),
    streams: int = 2,
    lse: int = 1,
    again: bool = False,
) -> Callable[..., int]:
    """Numbers moved; `keys`: how many go by for a block of queries, `again`: queries loaded for each tile."""

    def moved(length: int, head_dim: int, block_q: int, block_k: int) -> int:
        total = 0
        for start in range(0, length, block_q):
            rows = range(start, min(start + block_q, length))
            seen = keys(rows, length, block_q, block_k)
            loads = -(-seen // block_k) if again else 1
            total += len(rows) * (head_dim * loads + head_dim + lse) + streams * head_dim * seen
        return total

    return moved


def _moved_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)
    prime = [23, 29, 31, 37, 41, 43][int(torch.randint(6, (), generator=generator))]
    dims = 4 * int(torch.randint(1, 9, (), generator=generator))
    sizes = {
        "blocks that divide the length": (64, dims, 8, 8),
        "blocks that do not": (prime, dims, 5, 4),
        "wide blocks of keys": (prime, dims, 4, 9),
        "tall blocks of queries": (prime, dims, 9, 2),
        "one tile": (10, dims, 16, 16),
        "one query at a time": (prime, dims, 1, 6),
        "131,072 tokens": (131_072, 64, 128, 64),
    }
    names = ("length", "head_dim", "block_q", "block_k")
    return [Case(name, dict(zip(names, row, strict=True))) for name, row in sizes.items()]


def _half(length: int, head_dim: int, block_q: int, block_k: int) -> int:
    return length * (2 * head_dim + 1) + -(-length // block_q) * length * head_dim


MOVED = Exercise(
    id="08.moved",
    points=3,
    answer="moved",
    cases=_moved_cases,
    reference=_counted(),
    properties=(Property.equal("counts the numbers moved"),),
    findings=(
        Finding.like(
            "no tile is skipped",
            "This is the count without a causal mask. Which tiles does no query of a block have to look at?",
            _counted(lambda rows, length, block_q, block_k: length),
        ),
        Finding.like(
            "half of all",
            "Half is what is left of the *pairs*, nearly. The tiles on the diagonal are loaded whole, though half of "
            "each is hidden.",
            _half,
        ),
        Finding.like(
            "the diagonal is forgotten",
            "You count the tiles that lie wholly in the past. Who loads a query's own key?",
            _counted(lambda rows, length, block_q, block_k: rows.start // block_k * block_k),
        ),
        Finding.like(
            "only the keys that are seen",
            "A tile is loaded whole, or not at all. You stop at the last query's own key, in the middle of a tile.",
            _counted(lambda rows, length, block_q, block_k: rows.stop),
        ),
        Finding.like(
            "as many tiles as blocks of queries",
            "Right for square tiles. With 9 queries and 2 keys a tile, how many tiles does the *last* query of the "
            "first block reach into?",
            _counted(lambda rows, length, block_q, block_k: min(length, (rows.start // block_q + 1) * block_k)),
        ),
        Finding.like(
            "the last tile is full",
            "Right where the blocks of keys divide the length. The last one is shorter elsewhere: behind the end "
            "there is nothing to load.",
            _counted(lambda rows, length, block_q, block_k: -(-rows.stop // block_k) * block_k),
        ),
        Finding.like(
            "keys or values, not both",
            "Two tensors go by for each block of queries.",
            _counted(streams=1),
        ),
        Finding.like(
            "the lse is forgotten",
            "One number a query is missing: what does the backward pass need beside the output?",
            _counted(lse=0),
        ),
        Finding.like(
            "queries loaded for each tile",
            "A block of queries stays on the chip while the keys go by. How often is it loaded?",
            _counted(again=True),
        ),
    ),
)

EXERCISES = (STEP, MERGE, BACKWARD, REPAIR, MOVED)
