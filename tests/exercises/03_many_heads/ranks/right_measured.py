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
