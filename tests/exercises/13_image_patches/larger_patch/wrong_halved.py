# finding: halved
# Who thinks of one side of the image.
def predict_larger_patch():
    return {"patches": 1 / 2, "scores": 1 / 4, "embedding": 2, "parameters": 1.02, "flops": 1 / 2}
