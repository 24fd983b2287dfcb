# finding: heads share their space
# Who adds four matrices of rank 8 and expects rank 8.
def predict_ranks():
    return {"scores": 8, "weights": 20, "one term": 8, "all terms": 8}
