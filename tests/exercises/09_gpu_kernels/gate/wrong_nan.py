# finding: NaN passes
# Who asks whether the error is too large.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    error = (got.double() - exact).abs().max() / exact.abs().max()
    return not bool(error > 8 * torch.finfo(got.dtype).eps)
