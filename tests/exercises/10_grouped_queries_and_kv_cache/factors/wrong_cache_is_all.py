# finding: the cache is all that is read
# Who has heard that decoding is bound by the cache.
def predict_factors():
    return {"cache": 0.25, "projections": 0.625, "scores": 1.0, "step": 0.25}
