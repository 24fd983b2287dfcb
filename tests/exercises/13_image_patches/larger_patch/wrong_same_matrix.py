# finding: embedding unchanged
# Who remembers that one matrix serves all patches, and not what it multiplies.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 1, "parameters": 1, "flops": 1 / 4}
