# finding: less than nothing
# Who has a formula for the end and no lower bound for it.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        end = min(begin + block_q, lq)
        stop = min(lk, end + lk - lq) if causal else lk
        first = 0 if window is None else max(0, begin + lk - lq - window + 1)
        rows.append((first // block_k, -(-stop // block_k)))
    return rows
