# finding: all projections shrink
# Who thinks that a quarter of the heads is a quarter of the layer.
def predict_factors():
    return {"cache": 0.25, "projections": 0.25, "scores": 1.0, "step": 0.88}
