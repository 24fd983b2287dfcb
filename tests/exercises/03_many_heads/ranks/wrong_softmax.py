# finding: a softmax keeps the rank
# Who carries the low-rank bottleneck of the scores over to the weights.
def predict_ranks():
    return {"scores": 8, "weights": 8, "one term": 8, "all terms": 20}
