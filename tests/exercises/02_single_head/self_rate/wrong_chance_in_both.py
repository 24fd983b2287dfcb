# finding: chance in both
# Who thinks of random vectors as unrelated to themselves too.
def predict_self_rate():
    return {"tied": 1 / 16, "two matrices": 1 / 16}
