# %% right: infinite
# The class column made infinite for the choice.
import torch


def repaired(attention, count):
    ranked = attention.clone()
    ranked[:, 0] = float("inf")
    smallest = ranked.flatten().topk(count, largest=False).indices
    pruned = attention.flatten().index_fill(0, smallest, 0).view_as(attention)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1, keepdim=True)


# %% right: loop
# A list of all places outside of column 0, sorted by weight.
def repaired(attention, count):
    tokens = len(attention)
    places = [(attention[i, j].item(), i, j) for i in range(tokens) for j in range(1, tokens)]
    pruned = attention.clone()
    for _, i, j in sorted(places)[:count]:
        pruned[i, j] = 0
    pruned.diagonal().add_(1)
    return pruned / pruned.sum(dim=1).unsqueeze(1)


# %% right: two parts
# The class column put aside and put back.
import torch


def repaired(attention, count):
    others = attention[:, 1:].clone().flatten()
    others[others.argsort()[:count]] = 0
    pruned = torch.cat([attention[:, :1], others.view(len(attention), -1)], dim=1)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1, keepdim=True)


# %% wrong: nothing
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


# %% wrong: entry
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


# %% wrong: keepdim
# finding: the division is still wrong
# Who finds the column, as the comment names it, and stops.
import torch


def repaired(attention, count):
    others = attention[:, 1:].clone().flatten()
    others[others.argsort()[:count]] = 0
    pruned = torch.cat([attention[:, :1], others.view(len(attention), -1)], dim=1)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1)


# %% wrong: columns
# finding: columns divided
# Who adds keepdim, sees that the sums lie along the columns, and turns the axis round.
import torch


def repaired(attention, count):
    others = attention[:, 1:].clone().flatten()
    others[others.argsort()[:count]] = 0
    pruned = torch.cat([attention[:, :1], others.view(len(attention), -1)], dim=1)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-2, keepdim=True)


# %% wrong: no division
# finding: not divided
# Who takes the division out, since the mean over heads needs none.
import torch


def repaired(attention, count):
    others = attention[:, 1:].clone().flatten()
    others[others.argsort()[:count]] = 0
    pruned = torch.cat([attention[:, :1], others.view(len(attention), -1)], dim=1)
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed


# %% wrong: fewer
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


# %% wrong: row
# finding: the row is spared
# Who looks at the row that is drawn in the end, and spares that.
import torch


def repaired(attention, count):
    others = attention[1:].clone().flatten()
    others[others.argsort()[:count]] = 0
    pruned = torch.cat([attention[:1], others.view(-1, len(attention))])
    mixed = (pruned + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1, keepdim=True)


# %% wrong: in place
# finding: writes into the attention
# Who drops the copy, as flatten seems to make one.
import torch


def repaired(attention, count):
    ranked = attention.masked_fill(torch.arange(len(attention)) == 0, torch.inf)
    pruned = attention.flatten()
    pruned[ranked.flatten().argsort()[:count]] = 0
    mixed = (pruned.view_as(attention) + torch.eye(len(attention))) / 2
    return mixed / mixed.sum(dim=-1, keepdim=True)
