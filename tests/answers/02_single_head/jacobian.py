# %% right: einsum
# Letters, and the diagonal written into a matrix of zeros.
import torch


def jacobian(p):
    J = -torch.einsum("...j,...m->...jm", p, p)
    J.diagonal(dim1=-2, dim2=-1).add_(p)
    return J


# %% right: factored
# The bracket of the derivation: p_j (δ_jm − p_m).
import torch


def jacobian(p):
    delta = torch.eye(p.shape[-1], dtype=p.dtype)
    return p[..., :, None] * (delta - p[..., None, :])


# %% wrong: diagonal alone
# finding: the diagonal alone
# Who differentiates each weight by its own score, as with a sigmoid.
import torch


def jacobian(p):
    return torch.diag_embed(p * (1 - p))


# %% wrong: no diagonal
# finding: the diagonal is missing
# Who keeps the case m ≠ j only.
def jacobian(p):
    return -p.unsqueeze(-1) * p.unsqueeze(-2)


# %% wrong: sign
# finding: sign turned round
# Who lost a sign in the quotient rule.
import torch


def jacobian(p):
    return p[..., :, None] * p[..., None, :] - torch.diag_embed(p)


# %% wrong: identity
# finding: 1 in the place of p
# Who writes δ − p_j p_m and forgets the factor in front of the bracket.
import torch


def jacobian(p):
    return torch.eye(p.shape[-1], dtype=p.dtype) - p[..., :, None] * p[..., None, :]


# %% wrong: one product
# finding: one sum over all rows
# Who writes pᵀp for the outer product, which with several rows sums over them.
import torch


def jacobian(p):
    return torch.diag_embed(p) - (p.mT @ p if p.ndim > 1 else torch.outer(p, p))


# %% wrong: one row
# finding: one row only
# Who copies the chapter's line, written for one row.
import torch


def jacobian(p):
    return torch.diag(p) - torch.outer(p, p)
