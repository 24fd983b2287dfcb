# finding: half of all
# Who halves everything, as the triangle is half of the square.
import math


def moved(length, head_dim, block_q, block_k):
    blocks = math.ceil(length / block_q)
    return length * (2 * head_dim + 1) + blocks * 2 * length * head_dim / 2
