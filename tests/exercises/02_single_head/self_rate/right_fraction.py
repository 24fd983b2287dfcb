# Rounded, in another order.
def predict_self_rate():
    return {"two matrices": 0.06, "tied": 1}
