# finding: feed-forward forgotten
# Who thinks that a layer is its attention.
def predict_crossover():
    return {"attention": 5120, "layer": 5120}
