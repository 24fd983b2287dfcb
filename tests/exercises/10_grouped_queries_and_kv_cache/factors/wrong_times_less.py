# finding: how many times less
# Who gives savings as "four times".
def predict_factors():
    return {"cache": 4.0, "projections": 1.6, "scores": 1.0, "step": 1.13}
