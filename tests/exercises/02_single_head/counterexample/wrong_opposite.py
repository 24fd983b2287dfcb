# finding: lengths differ, directions too
# Who makes one token long and points it the other way.
import torch


def counterexample():
    return torch.tensor([[1.0, 0.0], [-3.0, 0.0]])
