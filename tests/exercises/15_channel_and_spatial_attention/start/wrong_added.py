# finding: gates are added
# Who divides by four, for four gates.
def predict_start():
    return {"gate": 0.5, "sum": 32, "four": 0.5 / 4, "softmax": 1 / 64, "softmax, four": 64**-4}
