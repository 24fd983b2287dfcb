"""Exercise 08.backward: the backward pass from the log-sum-exp."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import mhalib
from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.chapter_08._shared import item_is_right


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
        Property.each("the gradient of the queries", item_is_right(0)),
        Property.each("the gradient of the keys", item_is_right(1)),
        Property.each("the gradient of the values", item_is_right(2)),
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
