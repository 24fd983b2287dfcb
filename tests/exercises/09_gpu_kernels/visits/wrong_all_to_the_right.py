# finding: all tiles to the right
# Who leaves the future to the mask.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        first = 0 if window is None else max(0, begin + lk - lq - window + 1)
        rows.append((first // block_k, (lk + block_k - 1) // block_k))
    return rows
