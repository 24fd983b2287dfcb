# finding: 2 · d_model
# Who has read that scores overtake the projections at twice d_model.
def predict_crossover():
    return {"attention": 2 * 4096, "layer": 2 * 4096 + 21_504}
