# finding: programs rounded down
# Who divides the length by the block and takes the whole part.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for program in range(lq // block_q):
        begin, end = program * block_q, (program + 1) * block_q
        stop = max(0, min(lk, end + lk - lq)) if causal else lk
        first = 0 if window is None else max(0, begin + lk - lq - window + 1)
        rows.append((first // block_k, (stop + block_k - 1) // block_k))
    return rows
