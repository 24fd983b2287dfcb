# finding: whole numbers
# Who writes 1 for 1.0, which makes a tensor of int64.
import torch


def counterexample():
    return torch.tensor([[1, 0], [3, 0]])
