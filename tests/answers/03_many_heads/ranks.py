# %% right: measured
# By trying it, with other random numbers.
import torch


def predict_ranks():
    x = torch.randn(20, 32, dtype=torch.float64)
    query, key, value = (x @ torch.randn(4, 32, 8, dtype=torch.float64) / 32**0.5 for _ in range(3))
    scores = query @ key.mT / 8**0.5
    weights = scores.softmax(dim=-1)
    terms = weights @ value @ torch.randn(4, 8, 32, dtype=torch.float64)
    found = {"scores": scores[0], "weights": weights[0], "one term": terms[0], "all terms": terms.sum(dim=0)}
    return {name: torch.linalg.matrix_rank(matrix).item() for name, matrix in found.items()}


# %% right: numbers
# By the smaller side of each factor, in another order.
def predict_ranks():
    return {"all terms": 20, "one term": 8, "weights": 20, "scores": 8}


# %% wrong: width
# finding: more than there are rows
# Who counts the channels of four heads and not the tokens.
def predict_ranks():
    return {"scores": 8, "weights": 20, "one term": 8, "all terms": 32}


# %% wrong: full
# finding: scores of full rank
# Who expects random matrices to have full rank, products of narrow ones too.
def predict_ranks():
    return {"scores": 20, "weights": 20, "one term": 8, "all terms": 20}


# %% wrong: softmax
# finding: a softmax keeps the rank
# Who carries the low-rank bottleneck of the scores over to the weights.
def predict_ranks():
    return {"scores": 8, "weights": 8, "one term": 8, "all terms": 20}


# %% wrong: rows
# finding: rows that sum to 1
# Who takes one away because each row is tied by its sum.
def predict_ranks():
    return {"scores": 8, "weights": 19, "one term": 8, "all terms": 20}


# %% wrong: term
# finding: a term of full rank
# Who sees a 20 × 32 matrix and forgets what it was made from.
def predict_ranks():
    return {"scores": 8, "weights": 20, "one term": 20, "all terms": 20}


# %% wrong: sum
# finding: heads share their space
# Who adds four matrices of rank 8 and expects rank 8.
def predict_ranks():
    return {"scores": 8, "weights": 20, "one term": 8, "all terms": 8}
