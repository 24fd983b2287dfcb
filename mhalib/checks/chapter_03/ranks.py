"""Exercise 03.ranks: a prediction of the ranks of scores, weights and output."""

from __future__ import annotations

from mhalib.checks import Case, Exercise, Finding, Outcome, Property

RANK_KEYS = ("scores", "weights", "one term", "all terms")


def predict_ranks() -> dict[str, int]:
    """Ranks with 20 random tokens of 32 numbers and 4 heads of 8."""
    return {"scores": 8, "weights": 20, "one term": 8, "all terms": 20}


def _ranks(got: Outcome) -> list[int]:
    ranks = [got.value[key] for key in RANK_KEYS]
    if set(got.value) != set(RANK_KEYS) or not all(type(rank) is int and rank >= 0 for rank in ranks):
        raise ValueError("not four ranks")
    return ranks


def _right_rank(key: str):
    return lambda case, got, want: _ranks(got) and got.value[key] == want.value[key]


def _guessed(key: str, *ranks: int):
    return lambda case, got, want: _ranks(got) and got.value[key] in ranks


RANKS = Exercise(
    id="03.ranks",
    points=2,
    answer="predict_ranks",
    cases=lambda seed: [Case("your prediction")],
    reference=predict_ranks,
    properties=(
        Property.each(
            "four whole numbers",
            lambda case, got, want: _ranks(got),
            hint="Return a dict with four whole numbers, as the docstring shows.",
        ),
        *(Property.each(f"{key}: as measured", _right_rank(key)) for key in RANK_KEYS),
    ),
    findings=(
        Finding.any(
            "more than there are rows",
            "All four matrices have 20 rows. Can the rank of one be larger than that?",
            lambda case, got, want: max(_ranks(got)) > 20,
        ),
        Finding.any(
            "scores of full rank",
            "The scores are a product of a 20 × 8 and an 8 × 20 matrix. How large can the rank of such a product be?",
            _guessed("scores", 20),
        ),
        Finding.any(
            "a softmax keeps the rank",
            "A softmax is no matrix product: it acts on each number by itself. Take the exponential of each entry of "
            "a matrix of rank 1: does the rank stay?",
            _guessed("weights", 8),
        ),
        Finding.any(
            "rows that sum to 1",
            "That each row sums to 1 ties the *columns* to a constant; no row becomes a sum of others by it. The unit "
            "matrix has such rows too: what is its rank?",
            _guessed("weights", 1, 19),
        ),
        Finding.any(
            "a term of full rank",
            "One term is a 20 × 8 matrix, times a matrix 8 × 32. Through how many numbers does a token have to pass?",
            _guessed("one term", 20),
        ),
        Finding.any(
            "heads share their space",
            "Each head has rows of W_O of its own, so the heads write into different directions. What is the rank of a "
            "sum then, at most?",
            _guessed("all terms", 8),
        ),
    ),
)
