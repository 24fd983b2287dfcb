# finding: top left corner
# Who has only met as many queries as keys.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        end = min(begin + block_q, lq)
        stop = min(lk, end) if causal else lk
        first = 0 if window is None else max(0, begin - window + 1)
        rows.append((first // block_k, (stop + block_k - 1) // block_k))
    return rows
