# finding: embedding like patches
# Who gives each patch a matrix of its own.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 1 / 4, "parameters": 0.98, "flops": 1 / 4}
