# finding: softmax, four times the same
# Who has multiplied the gates and not the weights.
def predict_start():
    return {"gate": 0.5, "sum": 32, "four": 1 / 16, "softmax": 1 / 64, "softmax, four": 1 / 64}
