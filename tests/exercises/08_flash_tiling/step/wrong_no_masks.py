# finding: hidden keys not thought of
# Who writes the recurrence as it stands on paper.
import torch


def step(state, scores):
    m, total, moment = state
    new_m = torch.maximum(m, scores.amax(-1))
    p = (scores - new_m[:, None]).exp()
    old = (m - new_m).exp()
    return new_m, old * total + p.sum(-1), old * moment + (p * scores).sum(-1)
