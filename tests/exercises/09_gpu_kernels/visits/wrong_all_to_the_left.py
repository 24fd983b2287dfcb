# finding: all tiles to the left
# Who thinks of a window as a mask.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        end = min(begin + block_q, lq)
        stop = max(0, min(lk, end + lk - lq)) if causal else lk
        rows.append((0, (stop + block_k - 1) // block_k))
    return rows
