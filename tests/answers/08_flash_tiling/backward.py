# %% right: folded
# Both terms of a row joined into one number before the tile is touched.
import math


def backward(query, key, value, output, lse, grad_output, grad_lse):
    scale = 1 / math.sqrt(query.shape[-1])
    row = grad_lse - (grad_output * output).sum(-1)
    P = (scale * query @ key.mT - lse.unsqueeze(-1)).exp()
    dS = scale * P * (grad_output @ value.mT + row.unsqueeze(-1))
    return dS @ key, dS.mT @ query, P.mT @ grad_output


# %% right: key by key
# One key at a time, without any matrix of weights.
import torch


def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    delta = (grad_output * output).sum(dim=1)
    grad_query, grad_key, grad_value = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    for j in range(len(key)):
        p = (tau * query @ key[j] - lse).exp()
        ds = p * (grad_output @ value[j] - delta + grad_lse)
        grad_query += tau * ds[:, None] * key[j]
        grad_key[j] = tau * ds @ query
        grad_value[j] = p @ grad_output
    return grad_query, grad_key, grad_value


# %% right: sum over keys
# Delta as a sum over the keys, the way the softmax gives it.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (P * dP).sum(dim=1)
    dS = P * (dP - delta[:, None] + grad_lse[:, None])
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output


# %% wrong: no delta
# finding: delta omitted
# Who multiplies by the weights and takes that for the derivative of a softmax.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    dS = P * (dP + grad_lse[:, None])
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output


# %% wrong: no lse
# finding: the gradient of the lse omitted
# Who copies the chapter's tile, where the loss used the output alone.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (grad_output * output).sum(dim=1)
    dS = P * (dP - delta[:, None])
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output


# %% wrong: lse sign
# finding: the lse pulls the wrong way
# Who puts both numbers of a row on the same side of the minus.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (grad_output * output).sum(dim=1)
    dS = P * (dP - delta[:, None] - grad_lse[:, None])
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output


# %% wrong: lse unweighted
# finding: the lse pulls at all keys alike
# Who adds the gradient of the lse to the scores as it comes.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (grad_output * output).sum(dim=1)
    dS = P * (dP - delta[:, None]) + grad_lse[:, None]
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output


# %% wrong: scale behind
# finding: no scale on the way back
# Who scales the scores and forgets that this has a derivative.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (grad_output * output).sum(dim=1)
    dS = P * (dP - delta[:, None] + grad_lse[:, None])
    return dS @ key, dS.T @ query, P.T @ grad_output


# %% wrong: scale before
# finding: no scale in the scores
# Who makes the weights again from raw scores.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (grad_output * output).sum(dim=1)
    dS = P * (dP - delta[:, None] + grad_lse[:, None])
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output


# %% wrong: exponentials
# finding: exponentials overflow
# Who divides by the sum, as a softmax does.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau).exp() / lse.exp()[:, None]
    dP = grad_output @ value.T
    delta = (grad_output * output).sum(dim=1)
    dS = P * (dP - delta[:, None] + grad_lse[:, None])
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output


# %% wrong: delta of keys
# finding: delta of the keys
# Who sums over the wrong axis, where broadcasting fits by itself.
def backward(query, key, value, output, lse, grad_output, grad_lse):
    tau = query.shape[1] ** -0.5
    P = (query @ key.T * tau - lse[:, None]).exp()
    dP = grad_output @ value.T
    delta = (P * dP).sum(dim=0)
    dS = P * (dP - delta + grad_lse[:, None])
    return tau * dS @ key, tau * dS.T @ query, P.T @ grad_output
