# finding: parameters like the embedding
# Who takes the front for the model.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 4, "parameters": 4, "flops": 1 / 4}
