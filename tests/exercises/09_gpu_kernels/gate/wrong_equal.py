# finding: more than the dtype has
# Who expects the same numbers.
import torch


def passes(got, exact):
    return torch.equal(got.double(), exact)
