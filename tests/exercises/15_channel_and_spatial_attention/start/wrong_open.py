# finding: gates start open
# Who thinks that weights of 0 change nothing.
def predict_start():
    return {"gate": 1, "sum": 64, "four": 1, "softmax": 1 / 64, "softmax, four": 64**-4}
