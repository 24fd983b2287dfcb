# Each condition in a line.
import torch


def passes(got, exact):
    if got.shape != exact.shape or not torch.isfinite(got).all():
        return False
    error = (got.double() - exact).abs().max()
    return bool(error <= 8 * torch.finfo(got.dtype).eps * exact.abs().max())
