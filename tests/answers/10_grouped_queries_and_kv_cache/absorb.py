# %% right: head by head
# A loop over the heads.
import torch


def absorbed(query, latent, k_up, v_up):
    heads = []
    for h in range(query.shape[1]):
        asked = query[:, h] @ k_up[h]
        scores = torch.einsum("bir,bjr->bij", asked, latent) * query.shape[-1] ** -0.5
        mixed = scores.softmax(dim=-1) @ latent
        heads.append((asked, mixed, torch.einsum("bir,dr->bid", mixed, v_up[h])))
    return [torch.stack(part, dim=1) for part in zip(*heads, strict=True)]


# %% right: matmul
# Matrix products with a new axis.
import math


def absorbed(query, latent, k_up, v_up):
    asked = query @ k_up
    shared = latent[:, None]
    weights = (asked @ shared.mT / math.sqrt(k_up.shape[1])).softmax(dim=-1)
    mixed = weights @ shared
    return asked, mixed, mixed @ v_up.mT


# %% wrong: rank scale
# finding: scaled by the rank
# Who takes the scale from the tensors that are multiplied now.
import math


def absorbed(query, latent, k_up, v_up):
    asked = query @ k_up
    weights = (asked @ latent[:, None].mT / math.sqrt(asked.shape[-1])).softmax(dim=-1)
    mixed = weights @ latent[:, None]
    return asked, mixed, mixed @ v_up.mT


# %% wrong: no scale
# finding: no scale
# Who thinks that the scale went into the matrices with the rest.
def absorbed(query, latent, k_up, v_up):
    asked = query @ k_up
    mixed = (asked @ latent[:, None].mT).softmax(dim=-1) @ latent[:, None]
    return asked, mixed, mixed @ v_up.mT


# %% wrong: not transposed
# finding: not transposed
# Who moves the matrix to the other side as it is.
import math


def absorbed(query, latent, k_up, v_up):
    asked = query @ k_up.mT
    weights = (asked @ latent[:, None].mT / math.sqrt(k_up.shape[1])).softmax(dim=-1)
    mixed = weights @ latent[:, None]
    return asked, mixed, mixed @ v_up.mT


# %% wrong: keys at the end
# finding: keys unpacked at the end
# Who uses one unpacking matrix for both.
import math


def absorbed(query, latent, k_up, v_up):
    asked = query @ k_up
    weights = (asked @ latent[:, None].mT / math.sqrt(k_up.shape[1])).softmax(dim=-1)
    mixed = weights @ latent[:, None]
    return asked, mixed, mixed @ k_up.mT


# %% wrong: scale in query
# finding: the scale is in the query
# Who scales the query once instead of every score, which is thrifty and not what was asked for.
import math


def absorbed(query, latent, k_up, v_up):
    asked = query @ k_up / math.sqrt(k_up.shape[1])
    mixed = (asked @ latent[:, None].mT).softmax(dim=-1) @ latent[:, None]
    return asked, mixed, mixed @ v_up.mT


# %% wrong: one set of weights
# finding: one set of weights for all heads
# Who hears "all heads read the same latents" and shares the weights too.
import math


def absorbed(query, latent, k_up, v_up):
    asked = query @ k_up
    scores = (asked @ latent[:, None].mT / math.sqrt(k_up.shape[1])).mean(dim=1, keepdim=True)
    mixed = (scores.softmax(dim=-1) @ latent[:, None]).expand_as(asked)
    return asked, mixed, mixed @ v_up.mT


# %% wrong: unpacks
# finding: unpacks
# Who computes the plain form and returns its parts.
import math


def absorbed(query, latent, k_up, v_up):
    key, value = latent[:, None] @ k_up.mT, latent[:, None] @ v_up.mT
    weights = (query @ key.mT / math.sqrt(k_up.shape[1])).softmax(dim=-1)
    return query, weights @ latent[:, None], weights @ value


# %% wrong: only output
# finding: only the output
# Who stops when the output is right.
import math


def absorbed(query, latent, k_up, v_up):
    weights = (query @ k_up @ latent[:, None].mT / math.sqrt(k_up.shape[1])).softmax(dim=-1)
    return weights @ latent[:, None] @ v_up.mT
