# finding: the division is still wrong
# Who finds the column, as the comment names it, and stops.
import torch


def repaired(attention, count):
    others = attention[:, 1:].clone().flatten()
    others[others.argsort()[:count]] = 0
    pruned = torch.cat([attention[:, :1], others.view(len(attention), -1)], dim=1)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1)
