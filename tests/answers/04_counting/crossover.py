# %% right: exact
# By hand, from two equations.
def predict_crossover():
    return {"attention": 5120, "layer": 26_624}


# %% right: searched
# By trying lengths until the quadratic part wins.
from mhalib import counting


def predict_crossover():
    def first_length(others):
        length = 1
        while counting.attention_flops(length, 4096, 32, 8).attention < others(length):
            length += 8
        return length

    def projections(length):
        return counting.attention_flops(length, 4096, 32, 8).projections

    feed_forward = 6 * 4096 * 14_336
    return {"attention": first_length(projections), "layer": first_length(lambda n: projections(n) + n * feed_forward)}


# %% wrong: two d
# finding: 2 · d_model
# Who has read that scores overtake the projections at twice d_model.
def predict_crossover():
    return {"attention": 2 * 4096, "layer": 2 * 4096 + 21_504}


# %% wrong: one product
# finding: half of the quadratic part
# Who counts the scores and forgets the weighted sum.
def predict_crossover():
    return {"attention": 10_240, "layer": 53_248}


# %% wrong: heads again
# finding: heads counted again
# Who multiplies the scores of all heads by their number once more.
def predict_crossover():
    return {"attention": 160, "layer": 832}


# %% wrong: no feed forward
# finding: feed-forward forgotten
# Who thinks that a layer is its attention.
def predict_crossover():
    return {"attention": 5120, "layer": 5120}


# %% wrong: other way
# finding: the other way round
# Who expects more work to be overtaken earlier.
def predict_crossover():
    return {"attention": 5120, "layer": 1024}


# %% wrong: two matrices
# finding: two matrices
# Who knows feed-forward blocks without a gate.
def predict_crossover():
    return {"attention": 5120, "layer": 5120 + 14_336}


# %% wrong: textbook
# finding: the block of a textbook
# Who has read that the whole layer is overtaken at 6 · d_model.
def predict_crossover():
    return {"attention": 5120, "layer": 6 * 4096}
