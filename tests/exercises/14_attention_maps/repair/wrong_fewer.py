# finding: fewer go
# Who repairs the line where it stands: the column is taken out of the choice afterwards.
import torch


def repaired(attention, count):
    pruned = attention.clone().flatten()
    smallest = pruned.argsort()[:count]
    pruned[smallest[smallest % len(attention) != 0]] = 0
    pruned = pruned.view_as(attention)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1, keepdim=True)
