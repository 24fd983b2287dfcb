"""sequences: the letters, the dates and their gold places are what they say, and the same each time."""

import datetime

import pytest
import torch

from mhalib.course import sequences
from mhalib.course.sequences import CHARACTERS, ISO_CHARACTERS, MONTHS, NOTATIONS

FORMS = {"3 Nov 2026": "%d %b %Y", "November 3, 2026": "%B %d, %Y", "3.11.2026": "%d.%m.%Y", "2026/11/3": "%Y/%m/%d"}


def decoded(symbols, letters):
    return "".join(("_" + letters)[symbol] for symbol in symbols.tolist())


@pytest.fixture(scope="module")
def dates():
    return sequences.dates(400)


@pytest.mark.parametrize("name", NOTATIONS)
def test_dates_are_read_back_by_pythons_own_parser(name):
    made = sequences.dates(200, [name], seed=3)
    for text, answer in zip(made.texts, made.answers, strict=True):
        assert datetime.datetime.strptime(text, FORMS[name]).date().isoformat() == answer
        assert 1900 <= int(answer[:4]) <= 2099


def test_symbols_spell_the_dates(dates):
    for row, (text, answer) in enumerate(zip(dates.texts, dates.answers, strict=True)):
        assert decoded(dates.pairs.source[row], CHARACTERS) == text.ljust(dates.pairs.source.shape[1], "_")
        assert decoded(dates.pairs.target[row], ISO_CHARACTERS) == answer == sequences.iso_text(dates.pairs.target[row])
        assert torch.equal(sequences.date_symbols(text)[0], dates.pairs.source[row, : len(text)])
        assert dates.pairs.lengths[row] == len(text)
    assert dates.pairs.real.all()


def test_gold_places_hold_the_characters(dates):
    """A digit's place holds that digit; a 0 that stands nowhere points at its number; a month's word is that month."""
    for text, answer, gold in zip(dates.texts, dates.answers, dates.pairs.gold, strict=True):
        for step, letter in enumerate(answer):
            places = gold[step].nonzero()[:, 0].tolist()
            read = "".join(text[place] for place in places)
            if letter == "-":
                assert places == []
            elif read.isdigit():
                assert read == letter or (letter == "0" and read == answer[step + 1])
            else:
                assert step in (5, 6)
                assert read in (name := MONTHS[int(answer[5:7]) - 1], name[:3])
                assert places == list(range(places[0], places[0] + len(read)))


def test_gold_of_three_dates_by_hand():
    found, made = {}, sequences.dates(600, seed=1)
    for text, answer, gold in zip(made.texts, made.answers, made.pairs.gold, strict=True):
        found[text] = (answer, ["".join(str(place) for place in row.nonzero()[:, 0].tolist()) for row in gold])
    day = next(text for text in found if text[1] == " " and text[2:5] == "May")  # such as "3 May 1987"
    assert found[day][1] == ["6", "7", "8", "9", "", "234", "234", "", "0", "0"]
    slashed = next(text for text in found if len(text) == 10 and text[4] == "/")  # such as "1987/12/31"
    assert found[slashed][1] == ["0", "1", "2", "3", "", "5", "6", "", "8", "9"]


def test_dates_are_the_same_each_time_and_held_out_where_asked(dates):
    again = sequences.dates(400)
    assert again.texts == dates.texts
    assert dates.texts[:4] == FIRST_DATES
    other = sequences.dates(400, seed=1, unlike=dates)
    assert set(other.texts) & set(dates.texts) == set()
    assert set(sequences.dates(3000, seed=1).texts) & set(dates.texts) != set()


FIRST_DATES = ["2038/4/1", "13.7.1914", "2083/6/23", "25.4.2045"]


def test_letters_are_copied_from_their_own_places():
    made = sequences.letters(300, (2, 7), alphabet=5, seed=2)
    assert sorted(made.lengths.unique().tolist()) == [2, 3, 4, 5, 6, 7]
    assert torch.equal(made.source, made.target)
    assert torch.equal(made.source > 0, made.real)
    assert sorted(made.source.unique().tolist()) == [0, 1, 2, 3, 4, 5]
    for row, length in enumerate(made.lengths.tolist()):
        assert made.gold[row].nonzero().tolist() == [[place, place] for place in range(length)]
    assert sequences.letters(5, 4).lengths.tolist() == [4] * 5


def test_each_run_draws_its_own_and_fields_stay_together(dates):
    drawn = dates.pairs.drawn(3, 50, torch.Generator().manual_seed(0))
    assert drawn.source.shape[:2] == drawn.target.shape[:2] == (3, 50)
    assert not torch.equal(drawn.target[0], drawn.target[1])
    known = {answer: text for text, answer in zip(dates.texts, dates.answers, strict=True)}
    for source, length, target in zip(drawn.source[1], drawn.lengths[1], drawn.target[1], strict=True):
        assert known[decoded(target, ISO_CHARACTERS)] == decoded(source[:length], CHARACTERS)
    assert torch.equal(dates.pairs.repeated(2).gold[1], dates.pairs.gold)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: sequences.dates(0), ValueError, "number: got 0"),
        (lambda: sequences.dates(5, ["1/2/03"]), ValueError, r"notations: got \['1/2/03'\]; accepted are '3 Nov 2026'"),
        (lambda: sequences.dates(5, []), ValueError, r"notations: got \[\]"),
        (lambda: sequences.letters(5, (7, 2)), ValueError, r"length: got \(7, 2\)"),
        (lambda: sequences.letters(5, (1, 2, 3)), ValueError, r"length: got \(1, 2, 3\)"),
        (lambda: sequences.letters(5, 0), ValueError, r"length\[0\]: got 0"),
        (lambda: sequences.date_symbols("3 Növ"), ValueError, "text: got '3 Növ'"),
        (lambda: sequences.date_symbols(""), ValueError, "text: got ''"),
    ],
)
def test_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()
