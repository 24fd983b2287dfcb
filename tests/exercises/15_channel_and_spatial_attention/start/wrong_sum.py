# finding: gates sum to one
# Who carries the softmax over to the gates.
def predict_start():
    return {"gate": 0.5, "sum": 1, "four": 1 / 16, "softmax": 1 / 64, "softmax, four": 64**-4}
