# %% right: key by key
# Row by row and key by key, in plain Python.
import math

import torch


def step(state, scores):
    rows = []
    for (m, total, moment), row in zip(zip(*state, strict=True), scores, strict=True):
        m, total, moment = m.item(), total.item(), moment.item()
        for x in row.tolist():
            if x == -math.inf:
                continue
            new_m = max(m, x)
            old, new = math.exp(m - new_m), math.exp(x - new_m)
            m, total, moment = new_m, old * total + new, old * moment + new * x
        rows.append((m, total, moment))
    return tuple(torch.tensor(column, dtype=scores.dtype) for column in zip(*rows, strict=True))


# %% right: where
# The guard by where, and the terms of hidden keys selected away.
import torch


def step(state, scores):
    m, total, moment = state
    new_m = torch.maximum(m, scores.max(dim=1).values)
    shift = torch.where(torch.isinf(new_m), torch.zeros_like(new_m), new_m)
    p = torch.exp(scores - shift.unsqueeze(1))
    old = torch.exp(m - shift)
    terms = torch.where(p > 0, p * scores, torch.zeros_like(p))
    return new_m, old * total + p.sum(dim=1), old * moment + terms.sum(dim=1)


# %% wrong: no rescale
# finding: no rescale
# Who adds up tile after tile, as one does with any sum.
import torch


def step(state, scores):
    m, total, moment = state
    new_m = torch.maximum(m, scores.amax(-1))
    shift = new_m.masked_fill(new_m.isinf(), 0.0)
    p = (scores - shift[:, None]).exp()
    finite = scores.masked_fill(scores.isinf(), 0.0)
    return new_m, total + p.sum(-1), moment + (p * finite).sum(-1)


# %% wrong: moment not rescaled
# finding: the moment is not rescaled
# Who copies the step of the chapter and adds a third sum.
import torch


def step(state, scores):
    m, total, moment = state
    new_m = torch.maximum(m, scores.amax(-1))
    shift = new_m.masked_fill(new_m.isinf(), 0.0)
    p = (scores - shift[:, None]).exp()
    finite = scores.masked_fill(scores.isinf(), 0.0)
    return new_m, (m - shift).exp() * total + p.sum(-1), moment + (p * finite).sum(-1)


# %% wrong: upside down
# finding: rescaled the wrong way
# Who writes new minus old, as with any change.
import torch


def step(state, scores):
    m, total, moment = state
    new_m = torch.maximum(m, scores.amax(-1))
    shift = new_m.masked_fill(new_m.isinf(), 0.0)
    p = (scores - shift[:, None]).exp()
    finite = scores.masked_fill(scores.isinf(), 0.0)
    old = (shift - m).exp()
    return new_m, old * total + p.sum(-1), old * moment + (p * finite).sum(-1)


# %% wrong: no guard
# finding: minus infinity from itself
# Who leaves out hidden keys from the moment, and never has a row that begins with them.
import torch


def step(state, scores):
    m, total, moment = state
    new_m = torch.maximum(m, scores.amax(-1))
    finite = scores.masked_fill(scores.isinf(), 0.0)
    p = (scores - new_m[:, None]).exp()
    old = (m - new_m).exp()
    return new_m, old * total + p.sum(-1), old * moment + (p * finite).sum(-1)


# %% wrong: zero times infinity
# finding: zero times minus infinity
# Who guards the maximum and trusts that a weight of 0 hides everything.
import torch


def step(state, scores):
    m, total, moment = state
    new_m = torch.maximum(m, scores.amax(-1))
    shift = new_m.masked_fill(new_m.isinf(), 0.0)
    p = (scores - shift[:, None]).exp()
    old = (m - shift).exp()
    return new_m, old * total + p.sum(-1), old * moment + (p * scores).sum(-1)


# %% wrong: no masks
# finding: hidden keys not thought of
# Who writes the recurrence as it stands on paper.
import torch


def step(state, scores):
    m, total, moment = state
    new_m = torch.maximum(m, scores.amax(-1))
    p = (scores - new_m[:, None]).exp()
    old = (m - new_m).exp()
    return new_m, old * total + p.sum(-1), old * moment + (p * scores).sum(-1)


# %% wrong: tile maximum
# finding: the maximum of this tile
# Who subtracts the maximum of the tile at hand, as in a softmax of the tile.
def step(state, scores):
    m, total, moment = state
    new_m = scores.amax(-1)
    shift = new_m.masked_fill(new_m.isinf(), 0.0)
    p = (scores - shift[:, None]).exp()
    finite = scores.masked_fill(scores.isinf(), 0.0)
    old = (m - shift).exp()
    return new_m, old * total + p.sum(-1), old * moment + (p * finite).sum(-1)


# %% wrong: one maximum
# finding: one maximum for all rows
# Who takes the maximum of the whole tile, which is a single number.
import torch


def step(state, scores):
    m, total, moment = state
    new_m = torch.maximum(m, scores.max())
    shift = new_m.masked_fill(new_m.isinf(), 0.0)
    p = (scores - shift[:, None]).exp()
    finite = scores.masked_fill(scores.isinf(), 0.0)
    old = (m - shift).exp()
    return new_m, old * total + p.sum(-1), old * moment + (p * finite).sum(-1)
