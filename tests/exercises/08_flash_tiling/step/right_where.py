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
