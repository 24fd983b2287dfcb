# Tokens of a single number: the smaller positive ones look at the largest.
import torch


def counterexample():
    return torch.tensor([[0.5], [1.0], [2.0]], dtype=torch.float64)
