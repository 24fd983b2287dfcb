# finding: no tile is skipped
# Who takes the chapter's count, which has no mask.
def moved(length, head_dim, block_q, block_k):
    total = 0
    for start in range(0, length, block_q):
        stop = min(start + block_q, length)
        keys = length
        total += (stop - start) * (2 * head_dim + 1) + 2 * head_dim * keys
    return total
