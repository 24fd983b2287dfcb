# Fractions.
def predict_start():
    return {"gate": 0.5, "sum": 32, "four": 1 / 16, "softmax": 1 / 64, "softmax, four": 64**-4}
