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
