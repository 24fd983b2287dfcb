# finding: the diagonal is forgotten
# Who counts whole tiles of the past, and leaves out those that need a mask.
def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = start // block_k * block_k
        total += (stop - start) * (2 * head_dim + 1) + 2 * head_dim * keys
    return total
