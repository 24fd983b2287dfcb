# Torch's comparison, all of it as an absolute tolerance.
import torch


def passes(got, exact):
    bound = 8 * torch.finfo(got.dtype).eps * exact.abs().max().item()
    return got.shape == exact.shape and torch.allclose(got.double(), exact, rtol=0.0, atol=bound)
