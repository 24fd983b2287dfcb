# finding: a term of full rank
# Who sees a 20 × 32 matrix and forgets what it was made from.
def predict_ranks():
    return {"scores": 8, "weights": 20, "one term": 20, "all terms": 20}
