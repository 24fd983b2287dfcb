# finding: in percent
# Who writes 100 and means 100 %.
def predict_self_rate():
    return {"tied": 100, "two matrices": 6.25}
