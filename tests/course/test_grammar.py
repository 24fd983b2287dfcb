"""grammar: both languages and their alignment against sentences written by hand, and against the rules in general."""

import random

import pytest

from mhalib.course import grammar
from mhalib.course.grammar import Phrase, Plan

BY_HAND = [
    (Plan("I", "love", "you"), "I love you .", "je t' aime .", "I you love ."),
    (Plan("I", "love", "you", True), "I do not love you .", "je ne t' aime pas .", "I not you love not ."),
    (Plan("he", "love", "her", True), "he does not love her .", "il ne l' aime pas .", "he not her love not ."),
    (Plan("you", "watch", "us"), "you watch us .", "tu nous regardes .", "you us watch ."),
    (Plan("we", "hear", "them"), "we hear them .", "nous les entendons .", "we them hear ."),
    (
        Plan("I", "hear", Phrase("the", None, "church"), True),
        "I do not hear the church .",
        "je n' entends pas l' église .",
        "I not hear not the church .",
    ),
    (
        Plan("I", "hear", Phrase("a", "red", "bird")),
        "I hear a red bird .",
        "j' entends un oiseau rouge .",
        "I hear a bird red .",
    ),
    (
        Plan(Phrase("the", "small", "girl"), "find", Phrase("the", "white", "house")),
        "the small girl finds the white house .",
        "la petite fille trouve la maison blanche .",
        "the small girl finds the house white .",
    ),
    (
        Plan("they", "see", Phrase("the", "big", "tree")),
        "they see the big tree .",
        "ils voient le grand arbre .",
        "they see the big tree .",
    ),
]


@pytest.mark.parametrize(("plan", "english", "french", "rendered"), BY_HAND, ids=[row[1] for row in BY_HAND])
def test_sentences_by_hand(plan, english, french, rendered):
    made = grammar.sentence(plan)
    assert " ".join(made.english) == english
    assert " ".join(made.french) == french
    assert " ".join(made.english[place] for place in made.places) == rendered


def test_roles_are_those_of_the_words():
    made = grammar.sentence(Plan("she", "find", Phrase("the", "black", "cat"), True))
    assert made.roles == ["subject", "ne", "verb", "pas", "article", "noun", "adjective", "stop"]
    assert grammar.sentence(Plan("I", "love", "you")).roles == ["subject", "clitic", "verb", "stop"]


def test_rules_hold_for_every_plan_that_is_drawn():
    """The number of verb form follows the subject, nothing elidable stands before a vowel, nothing is reflexive."""
    rng = random.Random(5)
    for _ in range(3000):
        plan = grammar.draw(rng)
        made = grammar.sentence(plan)
        assert len(made.french) == len(made.roles) == len(made.places)
        assert made.french[-1] == made.english[-1] == "."
        for word, after in zip(made.french, made.french[1:], strict=False):
            assert word not in ("je", "ne", "me", "te", "le", "la") or after[0] not in "aeiouéè"
            assert not word.endswith("'") or after[0] in "aeiouéè"
        assert ("ne" in made.roles) == ("pas" in made.roles) == ("not" in made.english) == plan.negative
        third = plan.subject in ("he", "she") or isinstance(plan.subject, Phrase)
        assert ("does" in made.english) == (third and plan.negative)
        assert (plan.subject, plan.object) not in grammar.REFLEXIVE
        assert not (plan.negative and isinstance(plan.object, Phrase) and plan.object.article == "a")
        assert set(made.english) <= set(grammar.ENGLISH)
        assert set(made.french) <= set(grammar.FRENCH)
        assert set(made.roles) <= set(grammar.ROLES)


def test_held_out_plans_were_not_trained_on():
    train, test = grammar.corpus(3000, 300)
    assert (len(train), len(test), len(set(test))) == (3000, 300, 300)
    assert set(train) & set(test) == set()
    assert all(plan[:3] != ("I", "love", "you") for plan in [*train, *test])
    assert any(plan[1:3] == ("love", "you") for plan in train)  # others may love you
    assert grammar.corpus(3000, 300) == (train, test)
    assert (len(grammar.ENGLISH), len(grammar.FRENCH)) == (42, 62)


def test_pairs_spell_the_sentences():
    plans, _ = grammar.corpus(200, 1, seed=4)
    made = grammar.pairs(plans)
    for row, plan in enumerate(plans):
        one = grammar.sentence(plan)
        assert grammar.french_words(made.target[row]) == one.french + ["_"] * (10 - len(one.french))
        assert made.source[row, : made.lengths[row]].tolist() == grammar.english_symbols(one.english).tolist()
        assert (made.lengths[row], made.target_lengths[row]) == (len(one.english), len(one.french))
        assert made.gold[row].nonzero().tolist() == [[step, place] for step, place in enumerate(one.places)]


def test_unknown_words_and_long_sentences_are_refused():
    with pytest.raises(ValueError, match=r"words: got \['love', 'Paris'\]; accepted are \., aime, aiment"):
        grammar.french_symbols(["je", "love", "Paris"])
    with pytest.raises(ValueError, match="words: got"):
        grammar.english_symbols(["adore"])
    with pytest.raises(ValueError, match="length: got 3; accepted is at least 4"):
        grammar.pairs([Plan("I", "love", "you")], length=3)
