"""Byte pairs: nothing is lost, the commonest pair is joined first, and another encoder finds the same numbers."""

import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import PROPERTY

from mhalib.language import BytePairs, alice, pieces
from mhalib.language.byte_pairs import joined

SHORT = alice()[:4000]


def learned_slowly(text, vocab_size):
    """The algorithm as its paper tells it: count all pairs anew before each merge."""
    words = Counter(tuple(piece.encode()) for piece in pieces(text))
    merges = []
    while 256 + len(merges) < vocab_size:
        counts = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                counts[pair] += times
        most = max(counts.values(), default=0)
        if most < 2:
            break
        pair = min(pair for pair, times in counts.items() if times == most)
        merges.append(pair)
        words = Counter()
        for piece, times in Counter(pieces(text)).items():
            word = list(piece.encode())
            for number, merge in enumerate(merges, 256):
                word = joined(word, merge, number)
            words[tuple(word)] += times
    return merges


def test_pieces_by_hand():
    assert pieces("It is.  'Oh!' \n\nx") == ["It", " is", ".", " ", " '", "Oh", "!'", " \n", "\n", "x"]
    assert pieces("") == []


@PROPERTY
@given(st.text())
def test_pieces_lose_nothing(text):
    assert "".join(pieces(text)) == text


def test_a_pair_is_joined_from_left_to_right_and_no_member_twice():
    assert joined([1, 1, 1, 2, 1, 1], (1, 1), 9) == [9, 1, 2, 9]
    assert joined([], (1, 1), 9) == []


def test_the_commonest_pair_comes_first():
    """aaabdaaabac: aa comes four times and ab twice; then Z = aa: Za twice and ab twice; the smaller pair wins."""
    a, b = ord("a"), ord("b")
    encoder = BytePairs.learn("aaabdaaabac", 259)
    assert encoder.merges == [(a, a), (a, b), (256, 257)]
    assert encoder.encode("aaabdaaabac") == [258, ord("d"), 258, a, ord("c")]
    assert encoder.tokens[256:] == [b"aa", b"ab", b"aaab"]


@pytest.mark.parametrize("vocab_size", [256, 257, 300, 400])
def test_learning_equals_counting_anew_each_time(vocab_size):
    assert BytePairs.learn(SHORT, vocab_size).merges == learned_slowly(SHORT, vocab_size)


def test_learning_stops_where_no_pair_comes_twice():
    assert BytePairs.learn("abcd", 300).merges == []
    assert BytePairs.learn("", 300).vocab_size == 256
    assert BytePairs.learn("abab", 300).merges == [(97, 98)]


def test_no_pair_reaches_over_a_boundary_of_pieces():
    encoder = BytePairs.learn("a. b. " * 50, 300)
    assert all(len(pieces(token.decode())) == 1 for token in encoder.tokens[256:])


ENCODER = BytePairs.learn(SHORT, 400)


@PROPERTY
@given(st.text())
def test_a_round_trip_gives_the_text(text):
    numbers = ENCODER.encode(text)
    assert ENCODER.decode(numbers) == text
    assert all(0 <= number < ENCODER.vocab_size for number in numbers)


@pytest.mark.parametrize("text", [alice()[4000:9000], "naïve façade, 한국어, 🙂\n\t tabs  and   spaces  ", "x"])
def test_another_library_with_these_merges_gives_these_numbers(text):
    tokenizers = pytest.importorskip("tokenizers")
    letter = gpt2_letters()
    names = ["".join(letter[byte] for byte in token) for token in ENCODER.tokens]
    merges = [(names[left], names[right]) for left, right in ENCODER.merges]
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={n: i for i, n in enumerate(names)}, merges=merges))
    pattern = tokenizers.Regex(r" ?\w+| ?[^\w\s]+|\s+(?!\S)|\s")
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(pattern, behavior="isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    assert theirs.encode(text).ids == ENCODER.encode(text)


def gpt2_letters():
    """The letter by which byte-level encoders write each byte: itself where it can be seen, else one above 255."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {byte: chr(byte) for byte in seen} | {byte: chr(256 + n) for n, byte in enumerate(hidden)}


def test_a_cut_letter_is_decoded_as_such():
    assert ENCODER.decode("é".encode()[:1]) == "�"
    assert ENCODER.decode([]) == ""


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: BytePairs([(97, 256)]), ValueError, "merges: pair 0 is (97, 256); accepted are numbers from 0 to 255"),
        (lambda: BytePairs([(97, 98), (97, 98)]), ValueError, "merges: a pair comes twice"),
        (lambda: BytePairs.learn("a", 255), ValueError, "vocab_size: got 255; accepted is an integer of at least 256"),
        (lambda: BytePairs.learn(b"a", 300), TypeError, "text: got bytes b'a'; accepted is a str"),
        (lambda: ENCODER.encode(7), TypeError, "text: got int 7; accepted is a str"),
        (lambda: ENCODER.decode([400]), ValueError, "numbers: got 400; accepted is from 0 to 399"),
        (lambda: ENCODER.decode([-1]), ValueError, "numbers: got -1; accepted is from 0 to 399"),
        (lambda: ENCODER.decode([1.0]), TypeError, "numbers: got float 1.0 among them; accepted are integers"),
    ],
)
def test_wrong_input_is_refused(call, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        call()
