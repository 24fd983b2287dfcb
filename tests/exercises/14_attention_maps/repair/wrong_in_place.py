# finding: writes into the attention
# Who drops the copy, as flatten seems to make one.
import torch


def repaired(attention, count):
    ranked = attention.masked_fill(torch.arange(len(attention)) == 0, torch.inf)
    pruned = attention.flatten()
    pruned[ranked.flatten().argsort()[:count]] = 0
    mixed = (pruned.view_as(attention) + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1, keepdim=True)
