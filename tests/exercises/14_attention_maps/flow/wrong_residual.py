# finding: the residual alone
# Who multiplies the halves, and forgets that tokens read the class token too.
def predict_flow():
    return {"2 layers": 0.5**2, "12 layers": 0.5**12, "head shuffled": 1}
