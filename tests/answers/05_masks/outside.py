# %% right: amax
# Largest change of each output, turned so that a row is an output.
def seen(outputs):
    change = (outputs[1:] - outputs[0]).abs().amax(dim=-1)
    return (change > 1e-5).mT


# %% right: loop
# One token after the other, a column each.
import torch


def seen(outputs):
    columns = [~torch.isclose(run, outputs[0], rtol=0, atol=1e-5).all(dim=-1) for run in outputs[1:]]
    return torch.stack(columns, dim=1)


# %% wrong: transposed
# finding: queries and keys exchanged
# Who leaves the axes as the runs come.
def seen(outputs):
    change = (outputs[1:] - outputs[0]).abs().amax(dim=-1)
    return change > 1e-5


# %% wrong: exact
# finding: every rounding counts
# Who compares floating-point numbers with !=.
def seen(outputs):
    return (outputs[1:] != outputs[0]).any(dim=-1).T


# %% wrong: cancelled
# finding: changes cancelled
# Who sums the differences, and then takes the absolute value.
def seen(outputs):
    change = (outputs[1:] - outputs[0]).sum(dim=-1).abs()
    return (change > 1e-5).T


# %% wrong: all
# finding: every number has to move
# Who takes all for any.
def seen(outputs):
    return ((outputs[1:] - outputs[0]).abs() > 1e-5).all(dim=-1).T


# %% wrong: run before
# finding: compared with the run before
# Who takes differences of neighbours, as one does with a series.
import torch


def seen(outputs):
    return (torch.diff(outputs, dim=0).abs().amax(dim=-1) > 1e-5).T


# %% wrong: inverted
# finding: True where nothing moved
# Who asks which outputs stay the same.
def seen(outputs):
    same = (outputs[1:] - outputs[0]).abs().amax(dim=-1) <= 1e-5
    return same.T


# %% wrong: tril
# finding: the future was not looked at
# Who knows what a causal mask looks like and cleans the picture up.
def seen(outputs):
    change = (outputs[1:] - outputs[0]).abs().amax(dim=-1)
    return (change > 1e-5).T.tril()


# %% wrong: numbers
# finding: numbers for truth values
# Who returns ones and zeros, to draw them.
def seen(outputs):
    change = (outputs[1:] - outputs[0]).abs().amax(dim=-1)
    return (change > 1e-5).T.float()
