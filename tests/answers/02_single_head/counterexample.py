# %% right: numbers
# Tokens of a single number: the smaller positive ones look at the largest.
import torch


def counterexample():
    return torch.tensor([[0.5], [1.0], [2.0]], dtype=torch.float64)


# %% right: one long
# One of many random tokens, a hundred times as long.
import torch


def counterexample():
    x = torch.randn(8, 16)
    x[5] *= 100
    return x


# %% wrong: a vector
# finding: one token
# Who takes a vector of two numbers for two tokens.
import torch


def counterexample():
    return torch.tensor([1.0, 3.0])


# %% wrong: one token
# finding: one token
# Who thinks about a single vector.
import torch


def counterexample():
    return torch.tensor([[1.0, 2.0]])


# %% wrong: whole numbers
# finding: whole numbers
# Who writes 1 for 1.0, which makes a tensor of int64.
import torch


def counterexample():
    return torch.tensor([[1, 0], [3, 0]])


# %% wrong: zeros
# finding: nothing but zeros
# Who hopes that a tie is a loss.
import torch


def counterexample():
    return torch.zeros(2, 4)


# %% wrong: unit vectors
# finding: equal lengths
# Who changes only directions: unit vectors, one turned by 60 degrees.
import torch


def counterexample():
    return torch.tensor([[1.0, 0.0], [0.5, 0.75**0.5]])


# %% wrong: opposite
# finding: lengths differ, directions too
# Who makes one token long and points it the other way.
import torch


def counterexample():
    return torch.tensor([[1.0, 0.0], [-3.0, 0.0]])


# %% wrong: orthogonal
# finding: lengths differ, directions too
# Who makes one token long and leaves it orthogonal to the other.
import torch


def counterexample():
    return torch.tensor([[1.0, 0.0], [0.0, 50.0]])
