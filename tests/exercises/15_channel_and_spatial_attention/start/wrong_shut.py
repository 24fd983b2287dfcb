# finding: gates start shut
# Who thinks that weights of 0 let nothing through.
def predict_start():
    return {"gate": 0, "sum": 0, "four": 0, "softmax": 1 / 64, "softmax, four": 64**-4}
