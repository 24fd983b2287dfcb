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
