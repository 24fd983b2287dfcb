"""Exercise 14.cdam: the class-discriminative attention map."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mhalib.checks import Case, Exercise, Finding, Outcome, Property
from mhalib.checks.chapter_14._shared import only_writes


def last_layer(residual: Tensor, read: Tensor, query: Tensor, key: Tensor, value: Tensor, head: Tensor) -> Tensor:
    """Logits (classes,) of the model's last layer, as the notebook gives it."""
    return head @ (residual[0] + _class_row(read, query, key) @ read @ value)


def _class_row(read: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """(T,): what the class token reads."""
    return (read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])).softmax(dim=-1)


def _normed(tokens: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(tokens, tokens.shape[-1:])


def _cdam_with(score=lambda read, gradient, row: (read * gradient).sum(-1), of=lambda logits, target: logits[target]):
    """A map with one thing different: `score` makes it of tokens, gradient and attention, `of` is differentiated."""

    def mistaken(tokens: Tensor, query: Tensor, key: Tensor, value: Tensor, head: Tensor, target: int) -> Tensor:
        read = _normed(tokens).requires_grad_()
        logit = of(last_layer(tokens, read, query, key, value, head), target)
        (gradient,) = torch.autograd.grad(logit, read)
        read = read.detach()
        return score(read, gradient, _class_row(read, query, key))[1:]

    return mistaken


def _before_the_norm(tokens: Tensor, query: Tensor, key: Tensor, value: Tensor, head: Tensor, target: int) -> Tensor:
    tokens = tokens.clone().requires_grad_()
    logit = last_layer(tokens, _normed(tokens), query, key, value, head)[target]
    (gradient,) = torch.autograd.grad(logit, tokens)
    return (tokens.detach() * gradient).sum(-1)[1:]


def _two_places(tokens: Tensor, query: Tensor, key: Tensor, value: Tensor, head: Tensor, target: int) -> Tensor:
    gradient = _cdam_with(score=lambda read, gradient, row: gradient)(tokens, query, key, value, head, target)
    return (tokens[1:] * gradient).sum(-1)


cdam = _cdam_with()


def _cdam_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, tokens: int, width: int, classes: int, target: int) -> Case:
        def draw(*shape: int, size: float = 1.0) -> Tensor:
            return size * torch.randn(shape, generator=generator, dtype=torch.float64)

        matrices = {matrix: draw(width, width, size=width**-0.5) for matrix in ("query", "key", "value")}
        tensors = {"tokens": draw(tokens, width, size=2), **matrices, "head": draw(classes, width)}
        return Case(name, {**tensors, "target": target})

    plain = case("4 patches, class 0", 5, 8, 3, target=0)
    return [
        plain,
        Case("the same, class 2", {**plain.arguments, "target": 2}),
        Case("the same, every logit with its sign turned", {**plain.arguments, "head": -plain.arguments["head"]}),
        case("as many tokens as numbers", 6, 6, 4, target=1),
        case("one patch", 2, 7, 2, target=1),
    ]


def _with_class_token(case: Case, got: Outcome, want: Outcome) -> bool:
    return torch.allclose(got.value[1:], want.value) and len(got.value) == len(want.value) + 1


CDAM = Exercise(
    id="14.cdam",
    points=4,
    answer="cdam",
    cases=_cdam_cases,
    reference=cdam,
    properties=(
        Property.equal(),
        Property(
            "another class has another map",
            lambda e: not torch.allclose(e.got("4 patches, class 0"), e.got("the same, class 2")),
        ),
        Property(
            "what spoke for a class speaks against it when the logits turn their sign",
            lambda e: torch.allclose(e.got("4 patches, class 0"), -e.got("the same, every logit with its sign turned")),
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "before the norm",
            "Print your scores: they are next to nothing. A layer norm does not see how long a token is. Which tokens "
            "does the attention layer read?",
            _before_the_norm,
        ),
        Finding.like(
            "tokens and gradient from two places",
            "The gradient is the right one. It belongs to the tokens behind the norm, and you multiplied it with those "
            "before it.",
            _two_places,
        ),
        Finding.like(
            "absolute scores",
            "All your scores are positive. What would a token look like that speaks *against* the class?",
            _cdam_with(score=lambda read, gradient, row: (read * gradient).sum(-1).abs()),
        ),
        Finding.like(
            "absolute products",
            "You took the size of each product before the sum. Positive and negative entries of one token have to be "
            "weighed against each other.",
            _cdam_with(score=lambda read, gradient, row: (read * gradient).abs().sum(-1)),
        ),
        Finding.like(
            "only what speaks for it",
            "Your map has zeros where a token speaks against the class, as in maps that end in a ReLU. What does the "
            "formula do with the sign?",
            _cdam_with(score=lambda read, gradient, row: (read * gradient).sum(-1).clamp(min=0)),
        ),
        Finding.like(
            "times attention",
            "Attention is in the gradient already, through the chain rule. Where does the formula have an attention "
            "weight?",
            _cdam_with(score=lambda read, gradient, row: row * (read * gradient).sum(-1)),
        ),
        Finding.like(
            "a mean",
            "The order of your tokens is right, and the scores are too small by one factor. What does the formula do "
            "over the numbers of a token?",
            _cdam_with(score=lambda read, gradient, row: (read * gradient).mean(-1)),
        ),
        Finding.like(
            "the gradient alone",
            "The length of the gradient says how much a token *could* move the logit, in some direction. In which "
            "direction does the token itself point?",
            _cdam_with(score=lambda read, gradient, row: gradient.norm(dim=-1)),
        ),
        Finding.like(
            "the probability",
            "A softmax over the classes brings the other logits in: a token that only lowers those would seem to speak "
            "for this class. What does the formula differentiate?",
            _cdam_with(of=lambda logits, target: logits.softmax(-1)[target]),
        ),
        Finding.like(
            "all classes at once",
            "Your map is the same for each target: you differentiate the sum of all logits.",
            _cdam_with(of=lambda logits, target: logits.sum()),
        ),
        Finding.like(
            "the class that wins",
            "You explain the class that the model would choose. Which one was asked for?",
            _cdam_with(of=lambda logits, target: logits.max()),
        ),
        Finding.any(
            "the class token too",
            "One score too many: the first of your scores belongs to no patch.",
            _with_class_token,
        ),
        Finding(
            "writes into the tokens",
            "Your scores are right, and the caller's tokens are normed now. Which of your lines gives the norm's "
            "result the place of its input?",
            only_writes,
        ),
    ),
)
