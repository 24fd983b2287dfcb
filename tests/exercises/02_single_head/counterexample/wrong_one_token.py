# finding: one token
# Who thinks about a single vector.
import torch


def counterexample():
    return torch.tensor([[1.0, 2.0]])
