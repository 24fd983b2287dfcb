# finding: writes into the tokens
# Who norms by hand, with assignments that write into the argument.
import math

import torch


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    tokens -= tokens.mean(dim=-1, keepdim=True)
    tokens /= (tokens.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
    read = tokens.clone().requires_grad_()
    logit = last_layer(tokens, read, query, key, value, head)[target]
    (gradient,) = torch.autograd.grad(logit, read)
    return (tokens * gradient).sum(dim=-1)[1:]
