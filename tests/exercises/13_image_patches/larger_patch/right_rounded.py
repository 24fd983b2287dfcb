# Round numbers, from the argument alone.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 4, "parameters": 1.02, "flops": 1 / 4}
