# finding: in percent
# Who writes 33 and means 33 %.
def predict_flow():
    return {"2 layers": 33, "12 layers": 11, "head shuffled": 1}
