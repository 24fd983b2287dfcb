# finding: the other way round
# Who expects the matrices to make the match.
def predict_self_rate():
    return {"tied": 0.06, "two matrices": 1.0}
