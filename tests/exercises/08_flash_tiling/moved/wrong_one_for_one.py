# finding: as many tiles as blocks of queries
# Who has square tiles in mind; jax pull request 17314 repaired such a bound for tall ones.
def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = min(length, (start // block_q + 1) * block_k)
        total += (stop - start) * (2 * head_dim + 1) + 2 * head_dim * keys
    return total
