# finding: the last query decides the beginning
# Who takes both ends from the same query.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        end = min(begin + block_q, lq)
        stop = max(0, min(lk, end + lk - lq)) if causal else lk
        first = 0 if window is None else max(0, end - 1 + lk - lq - window + 1)
        rows.append((first // block_k, (stop + block_k - 1) // block_k))
    return rows
