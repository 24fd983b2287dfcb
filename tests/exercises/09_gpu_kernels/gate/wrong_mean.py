# finding: the mean hides it
# Who measures the error of a result as one measures a loss.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    return bool((got.double() - exact).abs().mean() <= 8 * torch.finfo(got.dtype).eps * exact.abs().max())
