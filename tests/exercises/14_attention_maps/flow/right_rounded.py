# From the closed form, rounded.
def predict_flow():
    return {"2 layers": 0.33, "12 layers": 0.11, "head shuffled": 1}
