# finding: half whatever the depth
# Who takes the half of the formula for the half of the result.
def predict_flow():
    return {"2 layers": 0.5, "12 layers": 0.5, "head shuffled": 1}
