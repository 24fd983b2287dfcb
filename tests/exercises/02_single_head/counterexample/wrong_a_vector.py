# finding: one token
# Who takes a vector of two numbers for two tokens.
import torch


def counterexample():
    return torch.tensor([1.0, 3.0])
