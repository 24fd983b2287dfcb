# finding: equal lengths
# Who changes only directions: unit vectors, one turned by 60 degrees.
import torch


def counterexample():
    return torch.tensor([[1.0, 0.0], [0.5, 0.75**0.5]])
