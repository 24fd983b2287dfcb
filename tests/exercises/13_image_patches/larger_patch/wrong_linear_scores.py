# finding: scores like patches
# Who counts one score for each token.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 4, "embedding": 4, "parameters": 1.02, "flops": 1 / 4}
