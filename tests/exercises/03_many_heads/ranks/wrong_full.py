# finding: scores of full rank
# Who expects random matrices to have full rank, products of narrow ones too.
def predict_ranks():
    return {"scores": 20, "weights": 20, "one term": 8, "all terms": 20}
