# finding: without a size
# Who tests with normal numbers only.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    return bool((got.double() - exact).abs().max() <= 8 * torch.finfo(got.dtype).eps)
