# finding: the other way round
# Who answers for the smaller patch.
def predict_larger_patch():
    return {"patches": 4, "scores": 16, "embedding": 1 / 4, "parameters": 1.02, "flops": 4}
