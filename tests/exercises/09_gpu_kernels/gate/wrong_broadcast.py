# finding: broadcasting
# Who subtracts first.
import torch


def passes(got, exact):
    error = (got.double() - exact).abs().max() / exact.abs().max()
    return bool(error <= 8 * torch.finfo(got.dtype).eps)
