# finding: the other way round
# Who expects more work to be overtaken earlier.
def predict_crossover():
    return {"attention": 5120, "layer": 1024}
