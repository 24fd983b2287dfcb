# finding: the block of a textbook
# Who has read that the whole layer is overtaken at 6 · d_model.
def predict_crossover():
    return {"attention": 5120, "layer": 6 * 4096}
