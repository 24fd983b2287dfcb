# The class column made infinite for the choice.
import torch


def repaired(attention, count):
    ranked = attention.clone()
    ranked[:, 0] = float("inf")
    smallest = ranked.flatten().topk(count, largest=False).indices
    pruned = attention.flatten().index_fill(0, smallest, 0).view_as(attention)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1, keepdim=True)
