# finding: the weights stay as they were
# Who sees that the weights dominate and forgets that some of them are gone.
def predict_factors():
    return {"cache": 0.25, "projections": 0.625, "scores": 1.0, "step": 0.98}
