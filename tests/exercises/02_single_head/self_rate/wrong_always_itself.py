# finding: a head always looks at itself
# Who has seen the diagonal of a tied map and takes it for what heads do.
def predict_self_rate():
    return {"tied": 1.0, "two matrices": 0.9}
