"""A small English and French, generated, in which the right alignment of every word is known.

Pronouns that move before the verb and lose a letter (*I love you*, *je t' aime*), adjectives that stand after the noun,
*do … not* for *ne … pas*, six persons of conjugation, gender and elision. An elided word and its verb are two words.
The rules are school grammar; the sentences are grammatical, and not always sensible.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import torch
from torch import Tensor

from mhalib.arguments import whole_numbers
from mhalib.course.sequences import Pairs

#: English subject → French subject and the number of its verb form.
SUBJECTS = {
    "I": ("je", 0),
    "you": ("tu", 1),
    "he": ("il", 2),
    "she": ("elle", 2),
    "we": ("nous", 3),
    "they": ("ils", 4),
}
#: English object → French object, which stands before the verb.
OBJECTS = {"me": "me", "you": "te", "him": "le", "her": "la", "us": "nous", "them": "les"}
#: These would need a reflexive pronoun.
REFLEXIVE = {("I", "me"), ("I", "us"), ("we", "me"), ("we", "us"), ("you", "you")}
#: English verb → its form for he and she, then French for je, tu, il, nous, ils.
VERBS = {
    "love": ("loves", ("aime", "aimes", "aime", "aimons", "aiment")),
    "see": ("sees", ("vois", "vois", "voit", "voyons", "voient")),
    "watch": ("watches", ("regarde", "regardes", "regarde", "regardons", "regardent")),
    "find": ("finds", ("trouve", "trouves", "trouve", "trouvons", "trouvent")),
    "seek": ("seeks", ("cherche", "cherches", "cherche", "cherchons", "cherchent")),
    "hear": ("hears", ("entends", "entends", "entend", "entendons", "entendent")),
}
#: English noun → French noun, feminine?
NOUNS = {
    **{"cat": ("chat", False), "dog": ("chien", False), "bird": ("oiseau", False), "girl": ("fille", True)},
    **{"tree": ("arbre", False), "car": ("voiture", True), "house": ("maison", True), "church": ("église", True)},
}
ALIVE = ("cat", "dog", "bird", "girl")  # what may see, love and hear
#: English adjective → French masculine, feminine, and whether it stands after the noun.
ADJECTIVES = {
    "big": ("grand", "grande", False),
    "small": ("petit", "petite", False),
    "red": ("rouge", "rouge", True),
    "white": ("blanc", "blanche", True),
    "black": ("noir", "noire", True),
}
ARTICLES = {"the": ("le", "la"), "a": ("un", "une")}
ELIDED = ("je", "me", "te", "le", "la", "ne")
VOWELS = "aeiouyéè"
ROLES = ("subject", "clitic", "verb", "ne", "pas", "article", "adjective", "noun", "stop")


class Phrase(NamedTuple):
    """Article, adjective or None, noun, in English."""

    article: str
    adjective: str | None
    noun: str


class Plan(NamedTuple):
    """What a sentence says; `sentence` puts it into both languages."""

    subject: str | Phrase
    verb: str
    object: str | Phrase
    negative: bool = False


class Sentence(NamedTuple):
    """A sentence in both languages."""

    english: list[str]
    french: list[str]
    roles: list[str]  #: of each French word, one of `ROLES`
    places: list[int]  #: of each French word, which English word it renders


def sentence(plan: Plan) -> Sentence:
    """Both languages, aligned as in a grammar book: *ne* and *pas* render *not*, and nothing renders *do*."""
    english, french = _subject(plan.subject)
    person = SUBJECTS[plan.subject][1] if isinstance(plan.subject, str) else 2
    if plan.negative:
        english += ["does" if person == 2 else "do", "not", plan.verb]
    else:
        english += [VERBS[plan.verb][0] if person == 2 else plan.verb]
    place = len(english) - 1
    core = [(VERBS[plan.verb][1][person], "verb", place)]
    if isinstance(plan.object, str):
        core.insert(0, (OBJECTS[plan.object], "clitic", place + 1))
    if plan.negative:
        core = [("ne", "ne", place - 1), *core, ("pas", "pas", place - 1)]
    french += core
    if isinstance(plan.object, str):
        english.append(plan.object)
    else:
        more, words = _phrase(plan.object, len(english))
        english += more
        french += words
    french.append((".", "stop", len(english)))
    words = [word for word, _, _ in french]
    following = [*words[1:], "."]
    words = [_elided(word, after) for word, after in zip(words, following, strict=True)]
    return Sentence([*english, "."], words, [role for _, role, _ in french], [place for _, _, place in french])


def draw(rng: random.Random) -> Plan:
    """A random plan. Negation takes no *a*: it would become *de*."""
    while True:
        negative = rng.random() < 0.4
        subject = list(SUBJECTS)[rng.randrange(6)] if rng.random() < 0.7 else _drawn_phrase(rng, ALIVE)
        wanted = list(OBJECTS)[rng.randrange(6)] if rng.random() < 0.5 else _drawn_phrase(rng, tuple(NOUNS), negative)
        verb = list(VERBS)[rng.randrange(6)]
        if (subject, wanted) not in REFLEXIVE:
            return Plan(subject, verb, wanted, negative)


def corpus(number: int, held_out: int, *, seed: int = 0) -> tuple[list[Plan], list[Plan]]:
    """Plans to train on, drawn with repetition, and different plans that are not among them, each once.

    *I love you* and *I do not love you* are in neither.
    """
    number, held_out = whole_numbers(number=number, held_out=held_out)
    (seed,) = whole_numbers(minimum=0, seed=seed)
    rng, train, test = random.Random(seed), [], []
    while len(train) < number:
        plan = draw(rng)
        if plan[:3] != ("I", "love", "you"):
            train.append(plan)
    seen = set(train)
    while len(test) < held_out:
        plan = draw(rng)
        if plan[:3] != ("I", "love", "you") and plan not in seen:
            test.append(plan)
            seen.add(plan)
    return train, test


def pairs(plans: list[Plan], length: int = 10) -> Pairs:
    """Plans as symbols, both languages padded to `length` words; `gold` has one place for each French word."""
    made = [sentence(plan) for plan in plans]
    longest = max((max(len(one.english), len(one.french)) for one in made), default=1)
    (length,) = whole_numbers(length=length)
    if length < longest:
        raise ValueError(f"length: got {length}; accepted is at least {longest}, the words of the longest sentence")
    source, target = (torch.zeros(len(made), length, dtype=torch.int64) for _ in range(2))
    gold = torch.zeros(len(made), length, length, dtype=torch.bool)
    for row, one in enumerate(made):
        source[row, : len(one.english)] = english_symbols(one.english)
        target[row, : len(one.french)] = french_symbols(one.french)
        gold[row, range(len(one.french)), one.places] = True
    lengths = [torch.tensor([len(one[language]) for one in made]) for language in (0, 1)]
    return Pairs(source, lengths[0], target, lengths[1], gold)


def english_symbols(words: list[str]) -> Tensor:
    """English words as symbols (L,), from 1."""
    return _symbols("words", words, ENGLISH)


def french_symbols(words: list[str]) -> Tensor:
    """French words as symbols (T,), from 1."""
    return _symbols("words", words, FRENCH)


def french_words(symbols: Tensor) -> list[str]:
    """Symbols (T,) as French words; "_" for symbol 0."""
    return [("_", *FRENCH)[symbol] for symbol in symbols.tolist()]


def _subject(subject: str | Phrase) -> tuple[list[str], list[tuple[str, str, int]]]:
    if isinstance(subject, str):
        return [subject], [(SUBJECTS[subject][0], "subject", 0)]
    return _phrase(subject, 0)


def _phrase(phrase: Phrase, first: int) -> tuple[list[str], list[tuple[str, str, int]]]:
    """English words, and French ones with role and place, `first` being the place of the article."""
    noun, feminine = NOUNS[phrase.noun]
    english = [word for word in phrase if word]
    french = [(noun, "noun", first + len(english) - 1)]
    if phrase.adjective:
        *forms, after = ADJECTIVES[phrase.adjective]
        french.insert(1 if after else 0, (forms[feminine], "adjective", first + 1))
    return english, [(ARTICLES[phrase.article][feminine], "article", first), *french]


def _elided(word: str, after: str) -> str:
    return f"{word[:-1]}'" if word in ELIDED and after[0] in VOWELS else word


def _drawn_phrase(rng: random.Random, nouns: tuple[str, ...], only_the: bool = False) -> Phrase:
    article = "the" if only_the or rng.random() < 0.5 else "a"
    adjective = (None, None, *ADJECTIVES)[rng.randrange(2 + len(ADJECTIVES))]
    return Phrase(article, adjective, nouns[rng.randrange(len(nouns))])


def _symbols(name: str, words: list[str], known: tuple[str, ...]) -> Tensor:
    strange = [word for word in words if word not in known]
    if strange:
        raise ValueError(f"{name}: got {strange}; accepted are {', '.join(known)}")
    return torch.tensor([known.index(word) + 1 for word in words])


def _english() -> tuple[str, ...]:
    verbs = [form for verb, (third, _) in VERBS.items() for form in (verb, third)]
    other = ("do", "does", "not", ".")
    return tuple(sorted({*SUBJECTS, *OBJECTS, *verbs, *NOUNS, *ADJECTIVES, *ARTICLES, *other}))


def _french() -> tuple[str, ...]:
    verbs = [form for _, forms in VERBS.values() for form in forms]
    subjects = [word for word, _ in SUBJECTS.values()]
    nouns = [word for word, _ in NOUNS.values()]
    adjectives = [form for *forms, _ in ADJECTIVES.values() for form in forms]
    articles = [form for forms in ARTICLES.values() for form in forms]
    elided = [f"{word[:-1]}'" for word in ELIDED]
    return tuple(
        sorted({*subjects, *OBJECTS.values(), *verbs, *nouns, *adjectives, *articles, *elided, "ne", "pas", "."})
    )


ENGLISH, FRENCH = _english(), _french()
