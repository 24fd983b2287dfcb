# finding: one layer
# Who computes a layer and takes it for the stack.
def predict_flow():
    return {"2 layers": 0.5 + 0.5 / 9, "12 layers": 0.5 + 0.5 / 9, "head shuffled": 1}
