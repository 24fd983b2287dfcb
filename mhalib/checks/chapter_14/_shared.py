"""What several exercises of chapter 14 use."""

from __future__ import annotations

import torch
from torch import Tensor

from mhalib.checks import Case, Evidence, Outcome


def divided(mixed: Tensor) -> Tensor:
    """`mixed`, each row divided by its sum."""
    return mixed / mixed.sum(dim=-1, keepdim=True)


def rows_sum_to_one(case: Case, got: Outcome, want: Outcome) -> bool:
    """Whether the last axis of the answer sums to 1."""
    total = got.value.sum(dim=-1)
    return torch.allclose(total, torch.ones_like(total))


def only_writes(evidence: Evidence) -> bool:
    """Every value is right, and an argument was written into."""
    right = all(evidence.same(Outcome(got.value), want) for _, got, want in evidence.rows())
    return right and any(got.changed for _, got, _ in evidence.rows())
