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
