"""Four listings of a post on multi-head attention, built anew: numpy, no line of the post's.

From the description of what each does; sizes and seeds were found by trying, until the programs gave what the post's
listings give when they are run, to the sixth digit (golden.json, "as_written"). numpy's RandomState is frozen since
1.16, so its stream is the one of the listings; Generator's normal numbers could change with numpy, and the two listings
that use them would have to be recorded again.
"""

import math

import numpy as np

import mhalib


def words(sentence):
    return sentence.lower().rstrip(".").split()


BANK = words(mhalib.SENTENCE)
CAT = words("The cat that was sleeping on the mat suddenly woke up.")
OFFICER = words(
    "The bank officer who was reviewing the loan application the customer submitted last week will call tomorrow."
)


def legacy(seed):
    """The stream of `np.random.seed(seed); np.random.randn(…)`, which the listings use."""
    return np.random.RandomState(seed)


def softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def embed(words, rng, size):
    """One vector of 32 normal numbers times `size` for each different word, in the order of appearance."""
    vocabulary = list(dict.fromkeys(words))
    table = size * rng.standard_normal((len(vocabulary), 32))
    return table[[vocabulary.index(word) for word in words]]


def tied(x):
    """One head with query = key = x: weights (n, n)."""
    return softmax(x @ x.T / math.sqrt(x.shape[1]))


def projections(rng, size, heads):
    """(query matrix, key matrix), 32 × 8 each, head by head; the value matrix is drawn after them and not used."""
    for _ in range(heads):
        query, key, _ = (size * rng.standard_normal((32, 8)) for _ in range(3))
        yield query, key


def many(x, rng, size, heads=4):
    """Weights (heads, n, n). Only the product of the sizes of embedding and projections shows in them."""
    return np.stack([softmax((x @ q) @ (x @ k).T / math.sqrt(8)) for q, k in projections(rng, size, heads)])


def partners(words, weights, count=1):
    """The `count` strongest other tokens of each token, as (word, partner, weight)."""
    rows = []
    for i, row in enumerate(weights):
        others = [j for j in np.argsort(-row, kind="stable") if j != i]
        rows += [(words[i], words[j], row[j]) for j in others[:count]]
    return rows


def cat_weights(seed=0):
    return many(embed(CAT, legacy(seed), 1.0), np.random.default_rng(seed), 0.2)


def officer_embedding():
    return embed(OFFICER, legacy(123), 0.4)


def bank_rows(rng):
    weights = tied(embed(BANK, rng, 0.5))[BANK.index("bank")]
    return [(BANK[j], weights[j]) for j in np.argsort(-weights)[:8]]


def curve(heads, noise=(0, 0.01, 0.015, 0.02, 0.018, 0.005)):
    """The "accuracy" of the post: an exponential, and six numbers typed in by hand. Nothing was trained."""
    return [0.74 + 0.18 * (1 - math.exp(-h / 6)) + bump for h, bump in zip(heads, noise, strict=True)]
