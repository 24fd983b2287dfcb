# finding: the first query decides the end
# Who lets one query speak for its block.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        position = begin + lk - lq
        stop = max(0, min(lk, position + 1)) if causal else lk
        first = 0 if window is None else max(0, position - window + 1)
        rows.append((first // block_k, (stop + block_k - 1) // block_k))
    return rows
