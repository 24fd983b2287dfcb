"""Exercises of chapter 05, masks."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import mhalib
from mhalib import masks
from mhalib.checks import Case, Evidence, Exercise, Finding, Outcome, Property

INF = math.inf

# --------------------------------------------------------------------------------------------------- 05.translate


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
            _translated(added=lambda keep: (1 - keep.float()) * -INF),
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

# --------------------------------------------------------------------------------------------------- 05.dead_rows


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Attention (B, H, Lq, D) under a boolean mask; a query that may see nothing gets 0."""
    whole = mask.expand(*mask.shape[:-2], query.shape[2], key.shape[2])
    return mhalib.attention(query, key, value, mask=whole, backend="reference")


def _dead_rows_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, shape: tuple[int, ...], lk: int, mask: Tensor, dtype: torch.dtype = torch.float64) -> Case:
        """`shape` is that of the query, (B, H, Lq, D)."""
        shapes = {"query": shape, "key": (*shape[:2], lk, shape[3]), "value": (*shape[:2], lk, shape[3])}
        drawn = {n: torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for n, s in shapes.items()}
        names = () if dtype == torch.float16 else ("query", "key", "value")
        return Case(name, {**drawn, "mask": mask}, gradients=names)

    def random_mask(lq: int, lk: int) -> Tensor:
        """Some keys of each row are visible and some are not."""
        order = torch.rand(lq, lk, generator=generator).argsort(dim=-1)
        return order < torch.randint(1, lk, (lq, 1), generator=generator)

    one_dead = random_mask(5, 7)
    one_dead[torch.randint(5, (1,), generator=generator)] = False
    half = random_mask(4, 6)
    half[1] = False
    return [
        case("no dead row", (2, 3, 5, 4), 7, random_mask(5, 7)),
        case("one dead row", (2, 3, 5, 4), 7, one_dead),
        case("an empty sequence in the batch", (3, 2, 4, 5), 6, masks.padding(torch.tensor([6, 0, 2]), 6)),
        case("nobody sees anything", (1, 1, 2, 4), 3, torch.zeros(2, 3, dtype=torch.bool)),
        case("everybody sees everything", (1, 2, 3, 4), 5, torch.ones(3, 5, dtype=torch.bool)),
        case("half precision, one dead row", (1, 2, 4, 8), 6, half, torch.float16),
    ]


def _masked(
    score: Callable[[Tensor, Tensor], Tensor], weigh: Callable = lambda w, m: w, finish: Callable | None = None
):
    """Attention with the mask applied to the scores, to the weights, or to the output."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        output = weigh(score(scores, mask).softmax(dim=-1), mask) @ value
        return finish(output, mask) if finish else output

    return mistaken


def _infinite(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -INF)


def _zeros_if_all_dead(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return _masked(_infinite)(query, key, value, mask) if mask.any() else 0 * query


def _dead(case: Case) -> Tensor:
    """bool (B, H, Lq)"""
    return masks.dead_rows(case.arguments["mask"]).expand(case.arguments["query"].shape[:3])


DEAD_ROWS = Exercise(
    id="05.dead_rows",
    points=4,
    answer="attend",
    cases=_dead_rows_cases,
    reference=attend,
    properties=(
        Property.equal(),
        Property.each("a query that sees nothing gets 0", lambda c, got, want: (got.value[_dead(c)] == 0).all()),
        Property.each(
            "no NaN in any gradient", lambda c, got, want: all(g.isfinite().all() for g in got.gradients.values())
        ),
        Property.same_gradients(),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "the dead row is NaN",
            "Right wherever a key is left. In a dead row all scores are −∞; what does the softmax subtract from them "
            "first?",
            _masked(_infinite),
        ),
        Finding.like(
            "blanked too late",
            "The outputs are right, the gradients are not: the weights of a dead row are still NaN when they meet the "
            "values, and on the way back 0 · NaN is NaN. At which point have they to be replaced?",
            _masked(_infinite, finish=lambda output, mask: output.nan_to_num()),
        ),
        Finding.like(
            "added and blanked",
            "The outputs are right, the gradients of query and key are not. Adding −∞ lets the NaN of a dead row's "
            "softmax flow back through the sum. Is there an operation that passes no gradient where it hides?",
            _masked(lambda s, m: s + masks.to_additive(m, s.dtype), lambda w, m: w.nan_to_num()),
        ),
        Finding.like(
            "minus a billion",
            "Two things: one dtype of these inputs cannot hold −1e9, and where it can, a dead row gets the mean of "
            "all that it must not see.",
            _masked(lambda s, m: s.masked_fill(~m, -1e9)),
        ),
        Finding.like(
            "the smallest finite number",
            "No NaN, but look at the output of a dead row and at the mean of the values. Equal scores, however "
            "small, give equal weights.",
            _masked(lambda s, m: s.masked_fill(~m, torch.finfo(s.dtype).min)),
        ),
        Finding.like(
            "weights set to zero",
            "The dead rows are 0, but in the others the weights do not sum to 1: the softmax has seen the hidden "
            "keys. What has to be hidden from it?",
            _masked(lambda s, m: s, lambda w, m: w * m),
        ),
        Finding.like(
            "only if all are dead",
            "You ask whether *anybody* sees anything. A single dead row among living ones is still NaN.",
            _zeros_if_all_dead,
        ),
        Finding.like(
            "True hides",
            "The dead rows are handled, for the opposite mask. Which way round does this course read True?",
            _masked(lambda s, m: s.masked_fill(m, -INF), lambda w, m: w.masked_fill(m, 0.0)),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------- 05.pairs


HUGE = "7 queries, 10¹⁵ keys"


def _pairs(seen: Callable[[int, int, int], int] = lambda place, lk, width: min(place + 1, width), corner: bool = True):
    """Sum over the queries of the keys that a query at a place sees."""

    def count(lq: int, lk: int, width: int) -> int:
        return sum(seen(i + (lk - lq if corner else 0), lk, width) for i in range(lq))

    return count


def _pairs_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def between(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    long = 10**15 + between(0, 1000)
    sizes = {
        "as many queries as keys": (n := between(8, 20), n, between(3, 6)),
        "a few queries, a narrow window": (between(3, 6), between(12, 20), between(2, 5)),
        "the window begins to cut halfway": (7, 11, between(6, 9)),
        "a window wider than everything": (between(3, 6), between(8, 12), between(20, 30)),
        "one query": (1, between(8, 20), between(3, 6)),
        "a window of one key": (5, between(6, 9), 1),
        HUGE: (7, long, long - between(2, 6)),
    }
    return [Case(name, dict(zip(("lq", "lk", "width"), row, strict=True))) for name, row in sizes.items()]


PAIRS = Exercise(
    id="05.pairs",
    points=2,
    answer="pairs",
    cases=_pairs_cases,
    reference=_pairs(),
    properties=(Property.equal("counts the pairs"),),
    findings=(
        Finding.any(
            "the mask was built",
            "Counting a mask is a good test for small sizes, but 10¹⁵ keys fit in no memory. How many keys does the "
            "query at place p see?",
            lambda case, got, want: case.name == HUGE and got.error.startswith(("RuntimeError", "MemoryError")),
        ),
        Finding.any(
            "rounded",
            "Right until the numbers get large: a floating-point number holds 53 bits. A count is a whole number; stay "
            "with whole numbers on the way, too.",
            lambda case, got, want: (
                case.name == HUGE and 0 < abs(got.value / want.value - 1) < 0.1 and isinstance(got.value, float)
            ),
        ),
        Finding.like(
            "the corner at the top left",
            "Right for as many queries as keys. With fewer, at which place does the first query stand?",
            _pairs(corner=False),
        ),
        Finding.like(
            "one's own key forgotten",
            "Draw the mask for 3 queries, 3 keys and a window of 1. A query sees its own key too.",
            _pairs(lambda place, lk, width: min(place, width - 1)),
        ),
        Finding.like(
            "the window is one key too wide",
            "How many keys does a query far from the beginning see with a window of `width` keys, its own included?",
            _pairs(lambda place, lk, width: min(place + 1, width + 1)),
        ),
        Finding.like(
            "every window is full",
            "Near the beginning of the sequence there are not `width` keys to see yet.",
            _pairs(lambda place, lk, width: width),
        ),
        Finding.like(
            "no window",
            "Right for a window wider than everything. What of a narrower one?",
            _pairs(lambda place, lk, width: place + 1),
        ),
        Finding.like(
            "both ways",
            "Your window reaches into the future too.",
            _pairs(lambda place, lk, width: min(lk, place + width) - max(0, place - width + 1)),
        ),
    ),
)
# ------------------------------------------------------------------------------------------------------ 05.repair


def repaired(query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
    """The last Lq tokens over Lk keys, causal, each seeing `window` keys, its own included."""
    return mhalib.attention(query, key, value, causal=True, window=window, backend="reference")


def _repair_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def case(name: str, lq: int, lk: int, window: int) -> Case:
        shapes = {"query": (2, 3, lq, 4), "key": (2, 3, lk, 4), "value": (2, 3, lk, 4)}
        drawn = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
        return Case(name, {**drawn, "window": window})

    prompt = case("a prompt", 7, 7, 3)
    return [
        prompt,
        Case("its last token alone", {**prompt.arguments, "query": prompt.arguments["query"][:, :, -1:].clone()}),
        case("3 tokens over 8 keys", 3, 8, 4),
        case("3 tokens over 8 keys, a window of 8", 3, 8, 8),
        case("a window of one key", 4, 6, 1),
        case("a window wider than the prompt", 5, 5, 9),
    ]


def _repaired_with(past: Callable[[int], int], near: Callable[[int, int], int]):
    """The program of the exercise with two diagonals: of the offset lk − lq, and of it and the window."""

    def mistaken(query: Tensor, key: Tensor, value: Tensor, window: int) -> Tensor:
        lq, lk = query.shape[-2], key.shape[-2]
        ones = torch.ones(lq, lk, dtype=torch.bool)
        allowed = ones.tril(past(lk - lq)) & ones.triu(near(lk - lq, window))
        return scaled_dot_product_attention(query, key, value, attn_mask=allowed)

    return mistaken


def _decodes(evidence: Evidence) -> bool:
    return torch.allclose(evidence.got("a prompt")[:, :, -1:], evidence.got("its last token alone"))


REPAIR = Exercise(
    id="05.repair",
    points=3,
    answer="repaired",
    cases=_repair_cases,
    reference=repaired,
    properties=(
        Property.equal("equals attention under the right mask"),
        Property("a token alone gets the same answer as at the end of its prompt", _decodes),
        Property.pure(),
    ),
    findings=(
        Finding.like(
            "nothing changed",
            "This does what the broken program does. Draw its mask twice: for 6 queries and 6 keys, and for 1 query "
            "and 6 keys.",
            _repaired_with(lambda off: 0, lambda off, w: -w),
        ),
        Finding.like(
            "the window is still one key too wide",
            "The corner is right now. Count the visible keys of the last row, and compare with the window.",
            _repaired_with(lambda off: off, lambda off, w: off - w),
        ),
        Finding.like(
            "the corner is still wrong",
            "The window has the right width now. With fewer queries than keys, where does the *last* query stand?",
            _repaired_with(lambda off: 0, lambda off, w: 1 - w),
        ),
        Finding.like(
            "only the future was moved",
            "One edge of the window has moved to the right corner, the other one has not: with a cache the window "
            "gets wider than it should be.",
            _repaired_with(lambda off: off, lambda off, w: 1 - w),
        ),
        Finding.like(
            "only the future was moved, and the width",
            "Two things are left, both at the far edge of the window: where it begins with a cache, and how many keys "
            "are inside without one.",
            _repaired_with(lambda off: off, lambda off, w: -w),
        ),
        Finding.like(
            "moved the wrong way",
            "Right for as many queries as keys. With a cache, do the queries stand at its beginning or at its end? "
            "Your diagonal moved to the other side.",
            _repaired_with(lambda off: -off, lambda off, w: 1 - w - off),
        ),
        Finding.like(
            "one key too few",
            "Now it is one key too narrow. With a window of one key a token has to see itself.",
            _repaired_with(lambda off: off, lambda off, w: off - w + 2),
        ),
    ),
)

# ------------------------------------------------------------------------------------------------------ 05.outside

ROUNDING = 1e-5


def seen_from_outside(outputs: Tensor) -> Tensor:
    """bool (L, T): which outputs move with which token; outputs (1 + T, L, D), the first with no token changed."""
    return ((outputs[1:] - outputs[0]).abs().amax(dim=-1) > ROUNDING).T


def _outside_cases(seed: int) -> list[Case]:
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def case(name: str, mask: Tensor, change: Callable[[Tensor], Tensor] = lambda x: x) -> Case:
        """Outputs of 4 numbers that move where the mask says so, and by a rounding elsewhere."""
        lq, lk = mask.shape
        moves = change(1 + randn(lk, lq, 4).abs()) * mask.T[..., None]
        base = randn(1, lq, 4)
        return Case(name, {"outputs": torch.cat([base, base + moves + 1e-8 * randn(lk, lq, 4)])})

    def one_channel(x: Tensor) -> Tensor:
        return x * torch.tensor([0.0, 0.0, 1.0, 0.0])

    def balanced(x: Tensor) -> Tensor:
        return x[..., :1] * torch.tensor([1.0, -1.0, 2.0, -2.0])

    scattered = torch.rand(6, 4, generator=generator) < 0.5
    scattered[0], scattered[1, 0] = torch.tensor([False, True, False, True]), True
    return [
        case("a causal mask", masks.causal(5)),
        case("one diagonal too many", torch.ones(5, 5, dtype=torch.bool).tril(1)),
        case("3 outputs, 7 tokens", masks.window(3, 7, 2)),
        case("any mask", scattered),
        case("changes in one number", masks.window(6, 6, 3), one_channel),
        case("changes that sum to 0", masks.causal(4, 6), balanced),
    ]


def _moved(outputs: Tensor) -> Tensor:
    return (outputs[1:] - outputs[0]).abs()


OUTSIDE = Exercise(
    id="05.outside",
    points=3,
    answer="seen",
    cases=_outside_cases,
    reference=seen_from_outside,
    properties=(Property.equal("finds the mask"), Property.pure()),
    findings=(
        Finding.like(
            "queries and keys exchanged",
            "A row has to be an output, a column the token that was changed. Along which of the two does your first "
            "axis run?",
            lambda outputs: _moved(outputs).amax(dim=-1) > ROUNDING,
        ),
        Finding.like(
            "every rounding counts",
            "You see changes of one part in 10⁸. The same numbers, added in another order, differ by as much: how "
            "large does a change have to be to count?",
            lambda outputs: (_moved(outputs) > 0).any(dim=-1).T,
        ),
        Finding.like(
            "changes cancelled",
            "You add up changes that have a sign. What if one number of an output rises and another one falls?",
            lambda outputs: ((outputs[1:] - outputs[0]).sum(dim=-1).abs() > ROUNDING).T,
        ),
        Finding.like(
            "every number has to move",
            "An output has moved if *one* of its numbers has.",
            lambda outputs: (_moved(outputs) > ROUNDING).all(dim=-1).T,
        ),
        Finding.like(
            "compared with the run before",
            "In run t − 1 another token is changed, and it is back in run t. Which run has all tokens as they were?",
            lambda outputs: ((outputs[1:] - outputs[:-1]).abs().amax(dim=-1) > ROUNDING).T,
        ),
        Finding.like(
            "True where nothing moved",
            "True = may attend: an output that moves with a token sees it.",
            lambda outputs: (_moved(outputs).amax(dim=-1) <= ROUNDING).T,
        ),
        Finding.any(
            "the future was not looked at",
            "You found what should be there, and not what is: one of these masks leaks, and yours does not show it.",
            lambda case, got, want: "too many" in case.name and torch.equal(got.value, want.value.tril()),
        ),
        Finding.any(
            "numbers for truth values",
            "A mask of this course is boolean.",
            lambda case, got, want: got.value.dtype != torch.bool and got.value.shape == want.value.shape,
        ),
    ),
)

EXERCISES = (TRANSLATE, DEAD_ROWS, PAIRS, REPAIR, OUTSIDE)
