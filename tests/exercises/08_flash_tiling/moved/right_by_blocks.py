# What does not depend on the tiles first, then one sum over the blocks of queries.
import math


def moved(length, head_dim, block_q, block_k):
    ends = [min(length, (i + 1) * block_q) for i in range(math.ceil(length / block_q))]
    keys = sum(min(length, math.ceil(end / block_k) * block_k) for end in ends)
    return length * (2 * head_dim + 1) + 2 * head_dim * keys
