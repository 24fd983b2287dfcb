# finding: fades to nothing
# Who expects that a deep rollout forgets the class token altogether.
def predict_flow():
    return {"2 layers": 1 / 3, "12 layers": 0.0, "head shuffled": 1}
