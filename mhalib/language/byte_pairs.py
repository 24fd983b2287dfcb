"""Byte-pair encoding: text as numbers, learned from a text by joining the commonest pair of neighbours again and again.

Sources: Sennrich et al. 2016, arXiv:1508.07909, §3.2 (the algorithm); Radford et al. 2019 (GPT-2), §2.2 (on bytes).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from mhalib.arguments import check_whole, is_whole, kind

#: Pieces that are never joined with each other: a word, or marks, each with one space before it; or space alone.
PIECE = re.compile(r" ?\w+| ?[^\w\s]+|\s+(?!\S)|\s")


def pieces(text: str) -> list[str]:
    """The text cut into pieces, nothing lost: "It is. " is "It", " is", ".", " "."""
    if not isinstance(text, str):
        raise TypeError(f"text: got {kind(text)}; accepted is a str")
    return PIECE.findall(text)


class BytePairs:
    """An encoder between text and numbers.

    Numbers 0 to 255 are the bytes of UTF-8, so that every text has an encoding; number 256 + m is the m-th pair of
    `merges`, joined. Encoding joins within a piece, the earliest merge first, until no pair is left that was learned.

    Args:
        merges: pairs of numbers, in the order in which they were learned; a pair names only what stands before it.

    `.vocab_size` is 256 + len(merges), `.tokens[n]` the bytes of number n.
    """

    def __init__(self, merges: Iterable[tuple[int, int]]):
        self.merges = [(int(left), int(right)) for left, right in merges]
        self.tokens = [bytes([byte]) for byte in range(256)]
        for number, (left, right) in enumerate(self.merges, 256):
            if not (0 <= left < number and 0 <= right < number):
                raise ValueError(
                    f"merges: pair {number - 256} is ({left}, {right}); accepted are numbers from 0 to {number - 1}"
                )
            self.tokens.append(self.tokens[left] + self.tokens[right])
        self._rank = {pair: number for number, pair in enumerate(self.merges, 256)}
        if len(self._rank) < len(self.merges):
            raise ValueError("merges: a pair comes twice; accepted is each pair once")
        self._known: dict[str, list[int]] = {}  # pieces that were encoded before: a text repeats its words

    @classmethod
    def learn(cls, text: str, vocab_size: int) -> BytePairs:
        """Join the commonest pair of neighbours, `vocab_size − 256` times; of equally common pairs the smallest.

        Pairs are counted within `pieces(text)`. Learning stops early where no pair comes twice.

        Args:
            text: what to learn from. Held-out text does not belong in it.
            vocab_size: at least 256.
        """
        check_whole(256, vocab_size=vocab_size)
        words = [(list(piece.encode()), times) for piece, times in Counter(pieces(text)).items()]
        merges: list[tuple[int, int]] = []
        counts = Counter()
        for word, times in words:
            _count(counts, word, times)
        while 256 + len(merges) < vocab_size and counts:
            pair, times = max(counts.items(), key=lambda item: (item[1], -item[0][0], -item[0][1]))
            if times < 2:
                break
            for place, (word, times) in enumerate(words):
                if pair in pairwise(word):
                    _count(counts, word, -times)
                    words[place] = (joined(word, pair, 256 + len(merges)), times)
                    _count(counts, words[place][0], times)
            merges.append(pair)
        return cls(merges)

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        """The numbers of a text."""
        return [number for piece in pieces(text) for number in self._encode_piece(piece)]

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of such numbers; bytes that are no UTF-8, as a cut letter leaves them, become "�"."""
        return b"".join(self.tokens[self._check(number)] for number in numbers).decode(errors="replace")

    def _encode_piece(self, piece: str) -> list[int]:
        if piece not in self._known:
            word = list(piece.encode())
            while len(word) > 1:
                pair = min(pairwise(word), key=lambda pair: self._rank.get(pair, self.vocab_size))
                if pair not in self._rank:
                    break
                word = joined(word, pair, self._rank[pair])
            self._known[piece] = word
        return self._known[piece]

    def _check(self, number: int) -> int:
        if not is_whole(number):
            raise TypeError(f"numbers: got {kind(number)} among them; accepted are integers, see Tensor.tolist")
        if not 0 <= number < self.vocab_size:
            raise ValueError(f"numbers: got {number}; accepted is from 0 to {self.vocab_size - 1}")
        return number


def joined(word: Sequence[int], pair: tuple[int, int], number: int) -> list[int]:
    """`word` with each `pair` of neighbours replaced by `number`, from left to right: no member is used twice."""
    made: list[int] = []
    place = 0
    while place < len(word):
        fits = place + 1 < len(word) and (word[place], word[place + 1]) == pair
        made.append(number if fits else word[place])
        place += 2 if fits else 1
    return made


def _count(counts: Counter, word: Sequence[int], times: int) -> None:
    """Add `times` for each pair of neighbours; a pair whose count falls to 0 leaves."""
    for pair in pairwise(word):
        counts[pair] += times
        if not counts[pair]:
            del counts[pair]
