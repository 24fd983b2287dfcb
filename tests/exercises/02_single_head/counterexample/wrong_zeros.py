# finding: nothing but zeros
# Who hopes that a tie is a loss.
import torch


def counterexample():
    return torch.zeros(2, 4)
