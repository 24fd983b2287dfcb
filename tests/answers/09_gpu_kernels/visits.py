# %% right: tile by tile
# Each tile asked whether any of its pairs is visible.
import torch


def visits(lq, lk, block_q, block_k, causal, window):
    distance = torch.arange(lq)[:, None] + lk - lq - torch.arange(lk)
    visible = torch.ones(lq, lk, dtype=torch.bool)
    if causal:
        visible = distance >= 0
    if window is not None:
        visible = visible & (distance < window)
    table = []
    for rows in visible.split(block_q):
        needed = [i for i, tile in enumerate(rows.split(block_k, dim=1)) if tile.any()]
        table.append([needed[0], needed[-1] + 1] if needed else [0, 0])
    return torch.tensor(table)


# %% right: two ends
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


# %% wrong: programs
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


# %% wrong: tiles
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


# %% wrong: top left
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


# %% wrong: first query
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


# %% wrong: all to the right
# finding: all tiles to the right
# Who leaves the future to the mask.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        first = 0 if window is None else max(0, begin + lk - lq - window + 1)
        rows.append((first // block_k, (lk + block_k - 1) // block_k))
    return rows


# %% wrong: last query
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


# %% wrong: all to the left
# finding: all tiles to the left
# Who thinks of a window as a mask.
def visits(lq, lk, block_q, block_k, causal, window):
    rows = []
    for begin in range(0, lq, block_q):
        end = min(begin + block_q, lq)
        stop = max(0, min(lk, end + lk - lq)) if causal else lk
        rows.append((0, (stop + block_k - 1) // block_k))
    return rows


# %% wrong: window
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


# %% wrong: below nought
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
