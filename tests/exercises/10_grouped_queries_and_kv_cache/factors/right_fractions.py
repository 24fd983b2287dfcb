# Counted on paper.
def predict_factors():
    return {"cache": 8 / 32, "projections": (32 + 8 + 8 + 32) / (4 * 32), "scores": 1, "step": 15.1 / 17.1}
