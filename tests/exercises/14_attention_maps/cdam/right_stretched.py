# By what the score means: a factor for each token, and the derivative by the factors.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:])
    longer = torch.ones(len(tokens), 1, dtype=tokens.dtype, requires_grad=True)
    logit = last_layer(tokens, longer * read, query, key, value, head)[target]
    return torch.autograd.grad(logit, longer)[0][1:, 0]
