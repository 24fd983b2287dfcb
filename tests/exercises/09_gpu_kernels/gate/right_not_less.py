# One comparison that NaN does not survive.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    worst = torch.linalg.vector_norm(got.double() - exact, ord=float("inf")) / exact.abs().max()
    return worst <= 8 * torch.finfo(got.dtype).eps
