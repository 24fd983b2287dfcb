# finding: the last tile is full
# Who multiplies the number of tiles by the size of one.
import math


def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = math.ceil(stop / block_k) * block_k
        total += (stop - start) * (2 * head_dim + 1) + 2 * head_dim * keys
    return total
