# finding: lengths differ, directions too
# Who makes one token long and leaves it orthogonal to the other.
import torch


def counterexample():
    return torch.tensor([[1.0, 0.0], [0.0, 50.0]])
