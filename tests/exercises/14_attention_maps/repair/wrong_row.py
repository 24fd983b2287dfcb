# finding: the row is spared
# Who looks at the row that is drawn in the end, and spares that.
import torch


def repaired(attention, count):
    others = attention[1:].clone().flatten()
    others[others.argsort()[:count]] = 0
    pruned = torch.cat([attention[:1], others.view(-1, len(attention))])
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1, keepdim=True)
