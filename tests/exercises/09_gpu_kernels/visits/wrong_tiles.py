# finding: tiles rounded down
# Who rounds the blocks up and the tiles down.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        end = min(begin + block_q, lq)
        stop = max(0, min(lk, end + lk - lq)) if causal else lk
        first = 0 if window is None else max(0, begin + lk - lq - window + 1)
        rows.append((first // block_k, stop // block_k))
    return rows
