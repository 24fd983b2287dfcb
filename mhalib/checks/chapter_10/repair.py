"""Exercise 10.repair: one step of beam search with a cache, to be repaired."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mhalib.checks import Case, Exercise, Finding, Property
from mhalib.checks.chapter_10._shared import normal


def repaired(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, parents: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of beam search: output, keys, values; beam k of sequence b continues its beam parents[b, k]."""
    return _repaired_with()(query, key, value, keys, values, parents)


def _own_rows(parents: Tensor) -> Tensor:
    return (parents + parents.shape[1] * torch.arange(parents.shape[0])[:, None]).flatten()


def _first_rows(parents: Tensor) -> Tensor:
    return parents.flatten()


def _no_rows(parents: Tensor) -> Tensor:
    return torch.arange(parents.numel())


def _scattered(x: Tensor, rows: Tensor) -> Tensor:
    moved = x.clone()
    for row, parent in enumerate(rows.tolist()):
        moved[parent] = x[row]
    return moved


def _one_after_another(x: Tensor, rows: Tensor) -> Tensor:
    moved = x.clone()
    for row, parent in enumerate(rows.tolist()):
        moved[row] = moved[parent]
    return moved


def _repaired_with(
    key_rows: Callable = _own_rows,
    value_rows: Callable = _own_rows,
    move: Callable = lambda x, rows: x[rows],
    after: bool = False,
):
    """The step of the exercise, with one choice or more still wrong."""

    def mistaken(
        query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, parents: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        if after:
            keys, values = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
        keys, values = move(keys, key_rows(parents)), move(values, value_rows(parents))
        if not after:
            keys, values = torch.cat((keys, key), dim=2), torch.cat((values, value), dim=2)
        return scaled_dot_product_attention(query, keys, values), keys, values

    return mistaken


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, parents: list[list[int]], heads: int = 2, seen: int = 5) -> Case:
        rows = len(parents) * len(parents[0])
        new = {n: normal(generator, rows, heads, 1, 4) for n in ("query", "key", "value")}
        old = {n: normal(generator, rows, heads, seen, 4) for n in ("keys", "values")}
        return Case(name, {**new, **old, "parents": torch.tensor(parents)})

    drawn = torch.randint(4, (3, 4), generator=generator).tolist()
    return [
        case("one sequence, 3 beams", [[2, 0, 2]]),
        case("2 sequences, 3 beams", [[1, 2, 0], [2, 2, 1]], heads=3),
        case("3 sequences, 4 beams", drawn, seen=2),
        case("every beam goes on", [[0, 1], [0, 1]]),
    ]


REPAIR = Exercise(
    id="10.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("each beam continues its parent, with the new token behind it"),
        Property.pure("leaves the caches that it was given alone"),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Take two sequences and write down, for each row of the new cache, "
            "which row of the old one its keys come from, and its values.",
            _repaired_with(key_rows=_first_rows, value_rows=_no_rows),
        ),
        Finding.like(
            "always the first sequence",
            "Right for one sequence. With two, whose beams do the rows of the second one continue? A parent is counted "
            "within its own sequence.",
            _repaired_with(key_rows=_first_rows, value_rows=_first_rows),
        ),
        Finding.like(
            "values stay behind",
            "The keys are right. A beam that looks for its tokens with its own keys should find its own values.",
            _repaired_with(value_rows=_no_rows),
        ),
        Finding.like(
            "the new token moves too",
            "The past is right. The new token of a row was computed for the beam that *now* stands there: has it any "
            "reason to move?",
            _repaired_with(after=True),
        ),
        Finding.like(
            "children for parents",
            "Your rows were *sent* to where they should have been *fetched* from. If two beams have the same parent, "
            "how many copies of it do you have?",
            _repaired_with(move=_scattered),
        ),
        Finding.like(
            "one row after another",
            "Some parents were overwritten before their children had fetched them. What has to be there until the last "
            "row is copied?",
            _repaired_with(move=_one_after_another),
        ),
        Finding.like(
            "beams before sequences",
            "Right for one sequence. Row b · K + k is beam k of sequence b: by how many rows does a sequence differ "
            "from the next?",
            _repaired_with(
                *[lambda p: (p * p.shape[0] + torch.arange(p.shape[0])[:, None]).flatten()] * 2,
            ),
        ),
    ),
)
