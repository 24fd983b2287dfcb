# finding: rows that sum to 1
# Who takes one away because each row is tied by its sum.
def predict_ranks():
    return {"scores": 8, "weights": 19, "one term": 8, "all terms": 20}
