# finding: attention alone
# Who leaves the residual connection out of the picture.
def predict_flow():
    return {"2 layers": 1 / 9, "12 layers": 1 / 9, "head shuffled": 1}
