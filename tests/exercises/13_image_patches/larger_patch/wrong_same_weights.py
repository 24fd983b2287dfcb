# finding: parameters unchanged or fewer
# Who knows that a Transformer's weights do not depend on the number of tokens.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 4, "parameters": 1.0, "flops": 1 / 4}
