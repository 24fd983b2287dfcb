# finding: more than the dtype has
# Who takes the precision from what is exact.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    return bool((got.double() - exact).abs().max() <= 8 * torch.finfo(exact.dtype).eps * exact.abs().max())
