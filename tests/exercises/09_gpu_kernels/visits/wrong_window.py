# finding: a window one too wide
# Who counts the window's keys beside the query's own.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        end = min(begin + block_q, lq)
        stop = max(0, min(lk, end + lk - lq)) if causal else lk
        first = 0 if window is None else max(0, begin + lk - lq - window)
        rows.append((first // block_k, (stop + block_k - 1) // block_k))
    return rows
