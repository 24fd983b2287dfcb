# finding: columns divided
# Who adds keepdim, sees that the sums lie along the columns, and turns the axis round.
import torch


def repaired(attention, count):
    others = attention[:, 1:].clone().flatten()
    others[others.argsort()[:count]] = 0
    pruned = torch.cat([attention[:, :1], others.view(len(attention), -1)], dim=1)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-2, keepdim=True)
