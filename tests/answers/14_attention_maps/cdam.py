# %% right: by hand
# Without autograd: what a token says for the class, and what it gains by being read more.
import math

import torch.nn.functional as F


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:])
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    weights, says = scores.softmax(dim=-1), read @ value @ head[target]
    return (weights * (says + scores * (says - weights @ says)))[1:]


# %% right: einsum
# The products summed with letters, the gradient by backward.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    last_layer(tokens, read, query, key, value, head)[target].backward()
    return torch.einsum("td,td->t", read.detach(), read.grad)[1:]


# %% right: stretched
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


# %% wrong: before the norm
# finding: before the norm
# Who hooks the block, whose input comes before its norm.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    tokens = tokens.clone().requires_grad_()
    read = F.layer_norm(tokens, tokens.shape[-1:])
    logit = last_layer(tokens, read, query, key, value, head)[target]
    (gradient,) = torch.autograd.grad(logit, tokens)
    return (tokens.detach() * gradient).sum(dim=-1)[1:]


# %% wrong: two places
# finding: tokens and gradient from two places
# Who multiplies with what came in as an argument.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits[target], read)
    return (tokens * gradient).sum(dim=-1)[1:]


# %% wrong: absolute
# finding: absolute scores
# Who wants a heat map, and heat has no sign.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits[target], read)
    return (read * gradient).sum(dim=-1).abs()[1:]


# %% wrong: absolute products
# finding: absolute products
# Who takes the size first, as one does with saliency of pixels.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits[target], read)
    return (read * gradient).abs().sum(dim=-1)[1:]


# %% wrong: relu
# finding: only what speaks for it
# Who ends in a ReLU, as Grad-CAM does.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits[target], read)
    return (read * gradient).sum(dim=-1).relu()[1:]


# %% wrong: times attention
# finding: times attention
# Who reads the A in the name as a factor.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits[target], read)
    weights = (read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])).softmax(dim=-1)
    return (weights * (read * gradient).sum(dim=-1))[1:]


# %% wrong: mean
# finding: a mean
# Who averages over the numbers of a token.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits[target], read)
    return (read * gradient).mean(dim=-1)[1:]


# %% wrong: gradient alone
# finding: the gradient alone
# Who takes how sensitive the logit is for what it rests on.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits[target], read)
    return gradient.norm(dim=-1)[1:]


# %% wrong: probability
# finding: the probability
# Who differentiates what the model reports.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits.softmax(dim=-1)[target], read)
    return (read * gradient).sum(dim=-1)[1:]


# %% wrong: all classes
# finding: all classes at once
# Who needs a single number to differentiate and takes the sum.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits.sum(), read)
    return (read * gradient).sum(dim=-1)[1:]


# %% wrong: winner
# finding: the class that wins
# Who explains the model's own answer.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits.max(), read)
    return (read * gradient).sum(dim=-1)[1:]


# %% wrong: class token
# finding: the class token too
# Who returns a score for each token.
import math

import torch
import torch.nn.functional as F


def last_layer(residual, read, query, key, value, head):
    scores = read[0] @ query @ (read @ key).mT / math.sqrt(read.shape[-1])
    return head @ (residual[0] + scores.softmax(dim=-1) @ read @ value)


def cdam(tokens, query, key, value, head, target):
    read = F.layer_norm(tokens, tokens.shape[-1:]).requires_grad_()
    logits = last_layer(tokens, read, query, key, value, head)
    (gradient,) = torch.autograd.grad(logits[target], read)
    return (read * gradient).sum(dim=-1)


# %% wrong: in place
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
