# finding: softmax of a half
# Who takes softmax and sigmoid for one thing where the logits are 0.
def predict_start():
    return {"gate": 0.5, "sum": 32, "four": 1 / 16, "softmax": 0.5, "softmax, four": 1 / 16}
