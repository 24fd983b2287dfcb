# finding: heads counted again
# Who multiplies the scores of all heads by their number once more.
def predict_crossover():
    return {"attention": 160, "layer": 832}
