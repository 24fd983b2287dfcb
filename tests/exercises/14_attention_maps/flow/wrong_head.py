# finding: the head matters
# Who thinks that a map from a model that answers nonsense has to be nonsense too.
def predict_flow():
    return {"2 layers": 1 / 3, "12 layers": 1 / 9, "head shuffled": 0.0}
