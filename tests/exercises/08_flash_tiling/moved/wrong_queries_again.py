# finding: queries loaded for each tile
# Who loads both operands of every product.
import math


def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = min(length, math.ceil(stop / block_k) * block_k)
        total += (stop - start) * (head_dim * math.ceil(keys / block_k) + head_dim + 1) + 2 * head_dim * keys
    return total
