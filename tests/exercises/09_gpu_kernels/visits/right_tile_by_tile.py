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
