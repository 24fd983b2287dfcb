# finding: always an eighth
# Who has read that grouping divides the cache by eight.
def predict_factors():
    return {"cache": 0.125, "projections": 0.625, "scores": 1.0, "step": 0.88}
