# finding: one entry spared
# Who finds the division, as the rows' sums show it, and stops.
import torch


def repaired(attention, count):
    pruned = attention.clone().flatten()
    smallest = pruned.argsort()[:count]
    pruned[smallest[smallest != 0]] = 0
    pruned = pruned.view_as(attention)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1, keepdim=True)
