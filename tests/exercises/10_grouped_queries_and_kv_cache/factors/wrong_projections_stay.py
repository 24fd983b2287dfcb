# finding: projections stay
# Who thinks of grouping as a way to store keys.
def predict_factors():
    return {"cache": 0.25, "projections": 1.0, "scores": 1.0, "step": 0.9}
