# finding: one gate is as good as four
# Who thinks that a gate decides once.
def predict_start():
    return {"gate": 0.5, "sum": 32, "four": 0.5, "softmax": 1 / 64, "softmax, four": 64**-4}
