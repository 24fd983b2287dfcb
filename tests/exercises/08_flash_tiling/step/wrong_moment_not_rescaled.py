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
