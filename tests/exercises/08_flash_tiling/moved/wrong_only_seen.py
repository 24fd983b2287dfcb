# finding: only the keys that are seen
# Who counts keys up to the last query, without tiles.
def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = stop
        total += (stop - start) * (2 * head_dim + 1) + 2 * head_dim * keys
    return total
