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
