# One of many random tokens, a hundred times as long.
import torch


def counterexample():
    x = torch.randn(8, 16)
    x[5] *= 100
    return x
