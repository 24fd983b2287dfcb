# finding: never by chance
# Who concludes from unrelated vectors that a token never finds itself.
def predict_self_rate():
    return {"tied": 1.0, "two matrices": 0.0}
