"""Exercise 05.translate: a tokenizer's mask as three interfaces want it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mhalib import masks
from mhalib.checks import Case, Exercise, Finding, Outcome, Property


def translate(attention_mask: Tensor) -> dict[str, Tensor]:
    """The mask of a causal model from a tokenizer's `attention_mask` (B, L), as three interfaces want it."""
    real = masks.from_huggingface(attention_mask)  # (B, 1, 1, L)
    past = masks.causal(attention_mask.shape[1])
    return {
        "sdpa": past & real,
        "added": masks.to_additive(past & real, torch.float32),
        "attn_mask": masks.to_torch_mha(past),
        "key_padding_mask": ~real[:, 0, 0],
    }


def _translate_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def right(batch: int, length: int) -> Tensor:
        """At least one token of each sequence is real, and at least one is not."""
        lengths = torch.randint(1, length, (batch, 1), generator=generator)
        return (torch.arange(length) < lengths).long()

    return [
        Case("padded on the right", {"attention_mask": right(3, 6)}),
        Case("padded on the left", {"attention_mask": right(2, 5).flip(1)}),
        Case("nothing padded", {"attention_mask": torch.ones(2, 4, dtype=torch.int64)}),
        Case("as many sequences as tokens", {"attention_mask": right(4, 4)}),
    ]


def _as_infinite(keep: Tensor) -> Tensor:
    return masks.to_additive(keep, torch.float32)


def _translated(
    real: Callable[[Tensor], Tensor] = Tensor.bool,
    join: Callable[[Tensor, Tensor], Tensor] = lambda past, real: past & real[:, None, None, :],
    added: Callable[[Tensor], Tensor] = _as_infinite,
    sdpa: Callable[[Tensor], Tensor] = Tensor.clone,
    mha: Callable[[Tensor], Tensor] = Tensor.logical_not,
) -> Callable[[Tensor], dict[str, Tensor]]:
    """A translation with one thing different: reading the tokenizer, combining, or writing for one interface."""

    def mistaken(attention_mask: Tensor) -> dict[str, Tensor]:
        seen, past = real(attention_mask), masks.causal(attention_mask.shape[1])
        keep = join(past, seen)
        return {"sdpa": sdpa(keep), "added": added(keep), "attn_mask": mha(past), "key_padding_mask": mha(seen)}

    return mistaken


def _by_length(attention_mask: Tensor) -> Tensor:
    return torch.arange(attention_mask.shape[1]) < attention_mask.sum(dim=1, keepdim=True)


def _part(key: str) -> Callable[[Case, Outcome, Outcome], bool]:
    return lambda case, got, want: torch.equal(got.value[key], want.value[key])


TRANSLATE = Exercise(
    id="05.translate",
    points=4,
    answer="translate",
    cases=_translate_cases,
    reference=translate,
    properties=(
        Property.each('"sdpa" for scaled_dot_product_attention', _part("sdpa")),
        Property.each('"added" for an interface that adds to the scores', _part("added")),
        Property.each('"attn_mask" for nn.MultiheadAttention', _part("attn_mask")),
        Property.each('"key_padding_mask" for nn.MultiheadAttention', _part("key_padding_mask")),
        Property.equal("these four and nothing else, in shape and dtype"),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "one polarity for everybody",
            "Right for scaled_dot_product_attention. What does nn.MultiheadAttention do to a key whose entry is True?",
            _translated(mha=Tensor.clone),
        ),
        Finding.like(
            "sdpa reads it like MultiheadAttention",
            "Right for nn.MultiheadAttention. Two functions of torch read the same tensor in opposite ways: which of "
            "the table's rows is scaled_dot_product_attention?",
            _translated(sdpa=Tensor.logical_not),
        ),
        Finding.like(
            "counted instead of read",
            "Right where the padding is on the right. You count the real tokens and take as many from the front: "
            "which tokens are real in a sequence that is padded on the left?",
            _translated(real=_by_length),
        ),
        Finding.like(
            "or in the place of and",
            "A key has to pass *both* masks. In yours, a padded key in the past is visible.",
            _translated(join=lambda past, real: past | real[:, None, None, :]),
        ),
        Finding.like(
            "padded queries hidden too",
            "You hide rows as well as columns. A padding mask says which *keys* are real; what a padded query computes "
            "nobody reads, and a row without keys is a new problem.",
            _translated(join=lambda past, real: past & real[:, None, None, :] & real[:, None, :, None]),
        ),
        Finding.like(
            "ones are added",
            "Add your mask to some scores in your head: visible keys gain 1, hidden ones keep theirs. Which number "
            "changes nothing when added, and which one leaves a weight of 0?",
            _translated(added=Tensor.float),
        ),
        Finding.like(
            "zero times infinity",
            "Look at the entries of the keys that stay visible: they are not 0. What is 0 · ∞ in floating point?",
            _translated(added=lambda keep: (1 - keep.float()) * -math.inf),
        ),
        Finding.like(
            "minus a billion",
            "A large number hides a key only next to smaller ones. The exercise asks for the number that hides it in "
            "every dtype and in every row.",
            _translated(added=lambda keep: (1 - keep.float()) * -1e9),
        ),
        Finding.any(
            "numbers for truth values",
            "Three of the four are boolean. A mask of integers is refused by torch today, and was read in some other "
            "way by older versions.",
            lambda case, got, want: any(got.value[k].dtype != want.value[k].dtype for k in want.value),
        ),
    ),
)
