# finding: half of the quadratic part
# Who counts the scores and forgets the weighted sum.
def predict_crossover():
    return {"attention": 10_240, "layer": 53_248}
