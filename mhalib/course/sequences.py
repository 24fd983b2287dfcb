"""Pairs of short sequences whose right alignment is known: letters to copy, dates in several notations.

The same call gives the same pairs on every machine. `mhalib.course.grammar` makes English and French sentences of the
same type, `Pairs`.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mhalib.arguments import whole_numbers

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
#: Symbol n of a written date is the n-th of these, from 1; symbol 0 pads.
CHARACTERS = "".join(sorted(set(" ,./" + "0123456789" + "".join(MONTHS))))
#: Symbol n of an ISO date is the n-th of these, from 1; symbol 0 starts.
ISO_CHARACTERS = "0123456789-"
#: Ways to write a date: pieces of day (d), month (m: number, mon: three letters, month: name) and year (y), and text.
NOTATIONS: dict[str, tuple[str, ...]] = {
    "3 Nov 2026": ("d", " ", "mon", " ", "y"),
    "November 3, 2026": ("month", " ", "d", ", ", "y"),
    "3.11.2026": ("d", ".", "m", ".", "y"),
    "2026/11/3": ("y", "/", "m", "/", "d"),
}


class Pairs(NamedTuple):
    """N pairs of sequences; symbol 0 pads both."""

    source: Tensor  #: (N, L) int64
    lengths: Tensor  #: (N,) int64: how many symbols of a source are real
    target: Tensor  #: (N, T) int64
    target_lengths: Tensor  #: (N,) int64
    gold: Tensor  #: (N, T, L) bool: where a target symbol can be read; False in all of a row: it stands nowhere

    @property
    def real(self) -> Tensor:
        """(N, T) bool: which symbols of the targets are real."""
        return torch.arange(self.target.shape[-1], device=self.target.device) < self.target_lengths[..., None]

    def drawn(self, runs: int, number: int, generator: torch.Generator) -> Pairs:
        """`number` pairs for each run, each run its own: the same fields with (R, number) in the place of (N,)."""
        runs, number = whole_numbers(runs=runs, number=number)
        chosen = torch.randint(len(self.source), (runs, number), generator=generator)
        return Pairs(*(field[chosen] for field in self))

    def repeated(self, runs: int) -> Pairs:
        """All pairs for each run: the same fields with (R, N) in the place of (N,), without a copy."""
        (runs,) = whole_numbers(runs=runs)
        return Pairs(*(field.expand(runs, *field.shape) for field in self))


def letters(number: int, length: int | tuple[int, int], *, alphabet: int = 10, seed: int = 0) -> Pairs:
    """Random letters, 1 … `alphabet`, to be copied as they are.

    Args:
        number: N.
        length: of all, or (shortest, longest), each length as likely as the next.
    """
    number, alphabet = whole_numbers(number=number, alphabet=alphabet)
    (seed,) = whole_numbers(minimum=0, seed=seed)
    ends = tuple(length) if isinstance(length, tuple | list) else (length, length)
    if len(ends) != 2:
        raise ValueError(f"length: got {length!r}; accepted is a whole number, or (shortest, longest)")
    shortest, longest = whole_numbers(**{"length[0]": ends[0], "length[1]": ends[1]})
    if shortest > longest:
        raise ValueError(f"length: got {length!r}; accepted is (shortest, longest), the shorter one first")
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(shortest, longest + 1, (number,), generator=generator)
    real = torch.arange(longest) < lengths[:, None]
    source = torch.randint(1, alphabet + 1, (number, longest), generator=generator) * real
    gold = torch.eye(longest, dtype=torch.bool) & real[:, :, None]
    return Pairs(source, lengths, source, lengths, gold)


class Dates(NamedTuple):
    """Written dates, their ISO form, and both as symbols."""

    texts: list[str]  #: as written, such as "3 Nov 2026"
    answers: list[str]  #: "2026-11-03"
    pairs: Pairs


def dates(number: int, notations: Sequence[str] | None = None, *, unlike: Dates | None = None, seed: int = 0) -> Dates:
    """Random dates of 1900 … 2099, each written in a random one of the notations, to be turned into ISO form.

    Where a character can be read: each digit of the year, and of a day or month of two digits, in its own place; of a
    number of one digit, and of the 0 written before it, in the place of that digit; of a month that is a word,
    anywhere in the word. Nothing holds for the hyphens.

    Args:
        number: N.
        notations: names of `NOTATIONS`; None: all.
        unlike: dates whose texts must not occur.
        seed: of the draw.
    """
    (number,) = whole_numbers(number=number)
    (seed,) = whole_numbers(minimum=0, seed=seed)
    names = list(NOTATIONS) if notations is None else list(notations)
    unknown = [name for name in names if name not in NOTATIONS]
    if unknown or not names:
        raise ValueError(f"notations: got {unknown or names}; accepted are {', '.join(map(repr, NOTATIONS))}")
    rng, taken = random.Random(seed), set(unlike.texts) if unlike else set()
    first, last = (datetime.date(*day).toordinal() for day in ((1900, 1, 1), (2099, 12, 31)))
    written = []
    while len(written) < number:
        date = datetime.date.fromordinal(rng.randint(first, last))
        text, places = _written(date, NOTATIONS[names[rng.randrange(len(names))]])
        if text not in taken:
            written.append((text, date.isoformat(), _gold(places)))
    texts, answers, gold = (list(column) for column in zip(*written, strict=True))
    return Dates(texts, answers, _as_pairs(texts, answers, gold))


def date_symbols(text: str) -> Tensor:
    """A written date as symbols (1, L), of `CHARACTERS`."""
    strange = [letter for letter in text if letter not in CHARACTERS]
    if strange or not text:
        raise ValueError(f"text: got {text!r}; accepted are the letters {CHARACTERS!r}, one or more")
    return torch.tensor([[CHARACTERS.index(letter) + 1 for letter in text]])


def iso_text(symbols: Tensor) -> str:
    """Symbols (T,) of an ISO date as text; "_" for symbol 0."""
    return "".join(("_" + ISO_CHARACTERS)[symbol] for symbol in symbols.tolist())


def _written(date: datetime.date, pieces: Sequence[str]) -> tuple[str, dict[str, range]]:
    """A date in letters, and the places of its year, month and day: {"y": …, "m": …, "d": …}."""
    name = MONTHS[date.month - 1]
    parts = {"y": date.year, "m": date.month, "d": date.day, "mon": name[:3], "month": name}
    text, places = "", {}
    for piece in pieces:
        part = str(parts.get(piece, piece))
        if piece in parts:
            places[piece[0]] = range(len(text), len(text) + len(part))
        text += part
    return text, places


def _gold(places: dict[str, range]) -> list[list[int]]:
    """For each of the ten characters of YYYY-MM-DD, the places where it can be read."""

    def two_digits(span: range) -> list[list[int]]:
        own = len(span) == 2  # a month of three letters or more is a word
        return [[span[0]], [span[1]]] if own else [[*span], [*span]]

    year = [[place] for place in places["y"]]
    return [*year, [], *two_digits(places["m"]), [], *two_digits(places["d"])]


def _as_pairs(texts: list[str], answers: list[str], gold: list[list[list[int]]]) -> Pairs:
    lengths = [len(text) for text in texts]
    widest = max(lengths)
    source = [[CHARACTERS.index(letter) + 1 for letter in text] + [0] * (widest - len(text)) for text in texts]
    target = [[ISO_CHARACTERS.index(letter) + 1 for letter in answer] for answer in answers]
    right = [[[place in places for place in range(widest)] for places in row] for row in gold]
    steps = [len(answer) for answer in answers]
    return Pairs(*(torch.tensor(field) for field in (source, lengths, target, steps, right)))
