# %% right: allclose
# Torch's comparison, all of it as an absolute tolerance.
import torch


def passes(got, exact):
    bound = 8 * torch.finfo(got.dtype).eps * exact.abs().max().item()
    return got.shape == exact.shape and torch.allclose(got.double(), exact, rtol=0.0, atol=bound)


# %% right: not less
# One comparison that NaN does not survive.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    worst = torch.linalg.vector_norm(got.double() - exact, ord=float("inf")) / exact.abs().max()
    return worst <= 8 * torch.finfo(got.dtype).eps


# %% right: written out
# Each condition in a line.
import torch


def passes(got, exact):
    if got.shape != exact.shape or not torch.isfinite(got).all():
        return False
    error = (got.double() - exact).abs().max()
    return bool(error <= 8 * torch.finfo(got.dtype).eps * exact.abs().max())


# %% wrong: double precision
# finding: more than the dtype has
# Who takes the precision from what is exact.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    return bool((got.double() - exact).abs().max() <= 8 * torch.finfo(exact.dtype).eps * exact.abs().max())


# %% wrong: equal
# finding: more than the dtype has
# Who expects the same numbers.
import torch


def passes(got, exact):
    return torch.equal(got.double(), exact)


# %% wrong: one tolerance
# finding: one tolerance for all
# Who takes 1e-3, since it has always been enough.
def passes(got, exact):
    if got.shape != exact.shape:
        return False
    return bool((got.double() - exact).abs().max() <= 1e-3 * exact.abs().max())


# %% wrong: strict tolerance
# finding: one tolerance for all
# Who takes 1e-5 and wonders about half precision.
def passes(got, exact):
    if got.shape != exact.shape:
        return False
    return bool((got.double() - exact).abs().max() <= 1e-5 * exact.abs().max())


# %% wrong: nan
# finding: NaN passes
# Who asks whether the error is too large.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    error = (got.double() - exact).abs().max() / exact.abs().max()
    return not bool(error > 8 * torch.finfo(got.dtype).eps)


# %% wrong: mean
# finding: the mean hides it
# Who measures the error of a result as one measures a loss.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    return bool((got.double() - exact).abs().mean() <= 8 * torch.finfo(got.dtype).eps * exact.abs().max())


# %% wrong: absolute
# finding: without a size
# Who tests with normal numbers only.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    return bool((got.double() - exact).abs().max() <= 8 * torch.finfo(got.dtype).eps)


# %% wrong: each by itself
# finding: each number by itself
# Who takes "relative" for "number by number".
import torch


def passes(got, exact):
    bound = 8 * torch.finfo(got.dtype).eps
    return got.shape == exact.shape and torch.allclose(got.double(), exact, rtol=bound, atol=0.0)


# %% wrong: broadcast
# finding: broadcasting
# Who subtracts first.
import torch


def passes(got, exact):
    error = (got.double() - exact).abs().max() / exact.abs().max()
    return bool(error <= 8 * torch.finfo(got.dtype).eps)


# %% wrong: own dtype
# finding: in the dtype of the result
# Who rounds what is exact so that the dtypes agree.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    bound = 8 * torch.finfo(got.dtype).eps * exact.abs().max().item()
    return torch.allclose(got, exact.to(got.dtype), rtol=0.0, atol=bound)
