"""Exercise 08.step: one step of the online softmax."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.chapter_08._shared import guard, item_is_right

State = tuple[Tensor, Tensor, Tensor]


def _no_guard(m: Tensor) -> Tensor:
    return m


def _row_maximum(m: Tensor, scores: Tensor) -> Tensor:
    return torch.maximum(m, scores.amax(-1))


def _stepped(
    largest: Callable[[Tensor, Tensor], Tensor] = _row_maximum,
    shift: Callable[[Tensor], Tensor] = guard,
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
        terms = weights * (scores.masked_fill(scores == -math.inf, 0.0) if finite else scores)
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
        hidden[:, 1] = -math.inf
        hidden[rows] = -math.inf
        return hidden

    nothing = torch.full((3,), -math.inf, dtype=torch.float64), *torch.zeros(2, 3, dtype=torch.float64)
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


STEP = Exercise(
    id="08.step",
    points=4,
    answer="step",
    cases=_step_cases,
    reference=_step,
    properties=(
        Property.each("the largest score so far", item_is_right(0)),
        Property.each("the sum", item_is_right(1)),
        Property.each("the moment", item_is_right(2)),
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
