# A softmax over the parts, whose NaN become 0.
import torch


def merge(outputs, lses):
    shares = lses.softmax(dim=0).nan_to_num()
    return torch.einsum("pl,pld->ld", shares, outputs), lses.logsumexp(dim=0)
