# finding: cheaper scores
# Who expects prefill to become four times as fast.
def predict_factors():
    return {"cache": 0.25, "projections": 0.625, "scores": 0.25, "step": 0.88}
