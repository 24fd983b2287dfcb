# finding: nothing changed
# Who renames things and runs it again.
import torch


def repaired(attention, count):
    pruned = attention.clone().flatten()
    smallest = pruned.argsort()[:count]
    pruned[smallest[smallest != 0]] = 0
    pruned = pruned.view_as(attention)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1)
