# finding: each number by itself
# Who takes "relative" for "number by number".
import torch


def passes(got, exact):
    bound = 8 * torch.finfo(got.dtype).eps
    return got.shape == exact.shape and torch.allclose(got.double(), exact, rtol=bound, atol=0.0)
