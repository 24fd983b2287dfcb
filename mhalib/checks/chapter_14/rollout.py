"""Exercise 14.rollout: attention rollout."""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib import saliency
from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.chapter_14._shared import divided, only_writes, rows_sum_to_one


def rollout(maps: Tensor, fusion: str) -> Tensor:
    """(T, T) from the maps (depth, H, T, T) of one image."""
    return saliency.rollout(maps[None], fusion=fusion)[0]


def _maps(generator: torch.Generator, *shape: int) -> Tensor:
    return (2 * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(dim=-1)


def _rollout_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)
    shared = _maps(generator, 2, 3, 4, 4)
    still = torch.eye(5, dtype=torch.float64).expand(2, 3, 5, 5).clone()
    return [
        Case("3 layers, 2 heads, mean", {"maps": _maps(generator, 3, 2, 5, 5), "fusion": "mean"}),
        Case("2 layers, 3 heads, max", {"maps": shared, "fusion": "max"}),
        Case("the same maps, min", {"maps": shared, "fusion": "min"}),
        Case("one layer, max", {"maps": _maps(generator, 1, 2, 6, 6), "fusion": "max"}),
        Case("as many layers as heads and tokens", {"maps": _maps(generator, 3, 3, 3, 3), "fusion": "mean"}),
        Case("no token reads another", {"maps": still, "fusion": "mean"}),
    ]


def _rollout_with(residual: float = 1.0, divide=divided, later_left: bool = True, fuse=saliency.fuse_heads):
    """A rollout with one thing different."""

    def mistaken(maps: Tensor, fusion: str) -> Tensor:
        identity = torch.eye(maps.shape[-1], dtype=maps.dtype)
        joint = identity
        for layer in maps:
            mixed = divide((fuse(layer, fusion) + residual * identity) / (1 + residual))
            joint = mixed @ joint if later_left else joint @ mixed
        return joint

    return mistaken


def _heads_apart(maps: Tensor, fusion: str) -> Tensor:
    heads = [_rollout_with()(maps[:, h : h + 1], "mean") for h in range(maps.shape[1])]
    return saliency.fuse_heads(torch.stack(heads), fusion)


def _divided_at_the_end(maps: Tensor, fusion: str) -> Tensor:
    return divided(_rollout_with(divide=lambda mixed: mixed)(maps, fusion))


def _everywhere(maps: Tensor, fusion: str) -> Tensor:
    joint = torch.eye(maps.shape[-1], dtype=maps.dtype)
    for layer in maps:
        joint = divided(saliency.fuse_heads(layer, fusion) + 1) @ joint
    return joint


ROLLOUT = Exercise(
    id="14.rollout",
    points=4,
    answer="rollout",
    cases=_rollout_cases,
    reference=rollout,
    properties=(
        Property.equal(),
        Property.each("each row sums to 1", rows_sum_to_one),
        Property(
            "if no token reads another, nothing moves",
            lambda e: torch.equal(e.got("no token reads another"), torch.eye(5, dtype=torch.float64)),
        ),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "no residual",
            "You let everything pass through attention. A block also hands each token on as it is: which matrix says "
            "that, and with which share?",
            _rollout_with(residual=0.0),
        ),
        Finding.like(
            "the wrong order",
            "Take two layers: in the first, token 1 reads token 2; in the second, the class token reads token 1. Does "
            "your class token hold some of token 2?",
            _rollout_with(later_left=False),
        ),
        Finding.like(
            "rows not divided",
            "Right for the mean over heads. Sum the rows of one layer for the other two ways of fusing heads: what do "
            "they add up to before the product?",
            _rollout_with(divide=lambda mixed: mixed),
        ),
        Finding.like(
            "columns divided",
            "Sum your matrix over one axis, then over the other. The shares of which token have to make 1: of the one "
            "that reads, or of the one that is read?",
            _rollout_with(divide=lambda mixed: mixed / mixed.sum(dim=-2, keepdim=True)),
        ),
        Finding.like(
            "divided without keepdim",
            "You have the sums of the rows, and broadcasting lays them along the columns. What shape must T sums have "
            "to stand beside T rows?",
            _rollout_with(divide=lambda mixed: mixed / mixed.sum(dim=-1)),
        ),
        Finding.like(
            "divided at the end",
            "Your rows sum to 1, but only the last ones. A row that is too heavy in an early layer counts too much "
            "in all that follows: when does it have to be divided?",
            _divided_at_the_end,
        ),
        Finding.like(
            "always the mean",
            "You give the same answer whatever `fusion` says.",
            _rollout_with(fuse=lambda layer, fusion: layer.mean(dim=0)),
        ),
        Finding.like(
            "heads apart to the end",
            "You rolled out each head by itself. A token after a layer is made by all heads of that layer together: "
            "when do they have to be fused?",
            _heads_apart,
        ),
        Finding.like(
            "the last layer alone",
            "What you return knows only the last layer. What do its tokens hold already when they arrive there?",
            lambda maps, fusion: _rollout_with()(maps[-1:], fusion),
        ),
        Finding.like(
            "one half added everywhere",
            "Give your function maps in which each token reads itself alone: no token may hold anything of another. "
            "Which entries of a matrix say that a token keeps what it has?",
            _everywhere,
        ),
        Finding(
            "writes into the maps",
            "Your result is right, and the caller's maps have changed: an operation that ends in an underscore, or an "
            "assignment like +=, writes into the tensor it is given.",
            only_writes,
        ),
    ),
)
