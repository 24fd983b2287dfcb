# Tile by tile, as the kernel walks.
def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        total += (stop - start) * head_dim  # the queries
        for first in range(0, stop, block_k):
            total += 2 * (min(first + block_k, length) - first) * head_dim  # keys and values
        total += (stop - start) * (head_dim + 1)  # output and lse
    return total
