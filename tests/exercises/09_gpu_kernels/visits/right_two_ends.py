# From the first and the last query of each block.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        end = min(begin + block_q, lq)
        first, stop = 0, lk
        if causal:
            stop = min(lk, max(0, end + lk - lq))
        if window is not None:
            first = max(0, begin + lk - lq - window + 1)
        rows.append((first // block_k, -(-stop // block_k)))
    return rows
