# finding: more than there are rows
# Who counts the channels of four heads and not the tokens.
def predict_ranks():
    return {"scores": 8, "weights": 20, "one term": 8, "all terms": 32}
