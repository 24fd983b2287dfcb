"""Exercise 14.deletion: the images of a deletion test."""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.checks import Case, Exercise, Finding, Outcome, Property
from mhalib.checks.chapter_14._shared import only_writes


def deletion(patches: Tensor, scores: Tensor, baseline: float) -> Tensor:
    """(N + 1, N, P): entry k is the image after the k patches (of P numbers) with the highest scores are gone."""
    return _deleted(patches, _ranks(scores), baseline)


def _ranks(scores: Tensor) -> Tensor:
    """0 for the patch that goes first."""
    return scores.argsort(descending=True).argsort()


def _deleted(patches: Tensor, rank: Tensor, baseline: float) -> Tensor:
    counts = torch.arange(len(patches) + 1)
    return patches.masked_fill((rank < counts[:, None])[..., None], baseline)


def _deletion_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, number: int, size: int, baseline: float, shift: float = 0.0) -> Case:
        """Scores of both signs, each sign at least once where there is more than one patch."""
        scores = torch.linspace(-1, 1.3, number, dtype=torch.float64)[torch.randperm(number, generator=generator)]
        patches = torch.rand(number, size, generator=generator, dtype=torch.float64)
        return Case(name, {"patches": patches, "scores": scores + shift, "baseline": baseline})

    return [
        case("8 patches, black", 8, 4, 0.0),
        case("7 patches, grey", 7, 3, 0.5),
        case("as many patches as numbers, white", 5, 5, 1.0),
        case("every score negative, grey", 6, 2, 0.25, shift=-2.0),
        case("one patch", 1, 4, 0.5),
    ]


def _one_at_a_time(patches: Tensor, scores: Tensor, baseline: float) -> Tensor:
    turns = torch.arange(-1, len(patches))[:, None]
    return patches.masked_fill((_ranks(scores) == turns)[..., None], baseline)


def _steps(case: Case, got: Outcome, want: Outcome) -> bool:
    """Whether each step changes exactly one patch."""
    changed = (got.value[1:] != got.value[:-1]).any(dim=-1)
    return bool((changed.sum(dim=-1) == 1).all())


DELETION = Exercise(
    id="14.deletion",
    points=3,
    answer="deletion",
    cases=_deletion_cases,
    reference=deletion,
    properties=(
        Property.each(
            "begins with the image as it was",
            lambda case, got, want: torch.equal(got.value[0], case.arguments["patches"]),
        ),
        Property.each(
            "ends with nothing but the baseline",
            lambda case, got, want: (got.value[-1] == case.arguments["baseline"]).all(),
        ),
        Property.each("each step takes one more patch", _steps),
        Property.equal("the patches go in the right order"),
        Property.pure(),
    ),
    findings=(
        Finding(
            "writes into the patches",
            "The images are right, and the caller's patches are gone. What did you write into?",
            only_writes,
        ),
        Finding.like(
            "lowest first",
            "Your first patch to go is the one with the lowest score. Which way does a sort run by itself?",
            lambda patches, scores, baseline: _deleted(patches, _ranks(-scores), baseline),
        ),
        Finding.like(
            "by size",
            "You took the patches with the largest *absolute* scores. A patch that speaks strongly against the class "
            "goes last: would the logit fall without it?",
            lambda patches, scores, baseline: _deleted(patches, _ranks(scores.abs()), baseline),
        ),
        Finding.like(
            "an order taken for ranks",
            "A sort gives, for each place in the order, the patch that stands there. You read it as: for each patch, "
            "its place. For which permutations is that the same?",
            lambda patches, scores, baseline: _deleted(patches, scores.argsort(descending=True), baseline),
        ),
        Finding.like(
            "the whole image is missing",
            "One image too few: what is the curve compared with? It has a point before anything is taken away.",
            lambda patches, scores, baseline: deletion(patches, scores, baseline)[1:],
        ),
        Finding.like(
            "the last step is missing",
            "One image too few: N patches go in N steps, which makes how many images?",
            lambda patches, scores, baseline: deletion(patches, scores, baseline)[:-1],
        ),
        Finding.like(
            "one at a time",
            "In each of your images a single patch is missing. After k steps k of them are gone.",
            _one_at_a_time,
        ),
        Finding.like(
            "always black",
            "Right where the baseline is 0. What shall stand in the place of a patch otherwise?",
            lambda patches, scores, baseline: deletion(patches, scores, 0.0),
        ),
        Finding.like(
            "put back",
            "You begin with nothing and put patches back. That is insertion, the other test.",
            lambda patches, scores, baseline: patches.masked_fill(
                (_ranks(scores) >= torch.arange(len(patches) + 1)[:, None])[..., None], baseline
            ),
        ),
        Finding.like(
            "one image many times",
            "All your images are the last one. A list that holds the same tensor several times shows its last state "
            "several times.",
            lambda patches, scores, baseline: torch.full((len(patches) + 1, *patches.shape), baseline).to(patches),
        ),
    ),
)
