# %% right: measured
# By multiplying the matrices; the head is known from the order of computation.
import torch


def predict_flow():
    mixed = (torch.full((9, 9), 1 / 9) + torch.eye(9)) / 2
    own = {f"{depth} layers": torch.linalg.matrix_power(mixed, depth)[0, 0].item() for depth in (2, 12)}
    return own | {"head shuffled": 1.0}


# %% right: rounded
# From the closed form, rounded.
def predict_flow():
    return {"2 layers": 0.33, "12 layers": 0.11, "head shuffled": 1}


# %% wrong: percent
# finding: in percent
# Who writes 33 and means 33 %.
def predict_flow():
    return {"2 layers": 33, "12 layers": 11, "head shuffled": 1}


# %% wrong: residual
# finding: the residual alone
# Who multiplies the halves, and forgets that tokens read the class token too.
def predict_flow():
    return {"2 layers": 0.5**2, "12 layers": 0.5**12, "head shuffled": 1}


# %% wrong: attention
# finding: attention alone
# Who leaves the residual connection out of the picture.
def predict_flow():
    return {"2 layers": 1 / 9, "12 layers": 1 / 9, "head shuffled": 1}


# %% wrong: one layer
# finding: one layer
# Who computes a layer and takes it for the stack.
def predict_flow():
    return {"2 layers": 0.5 + 0.5 / 9, "12 layers": 0.5 + 0.5 / 9, "head shuffled": 1}


# %% wrong: half
# finding: half whatever the depth
# Who takes the half of the formula for the half of the result.
def predict_flow():
    return {"2 layers": 0.5, "12 layers": 0.5, "head shuffled": 1}


# %% wrong: fades
# finding: fades to nothing
# Who expects that a deep rollout forgets the class token altogether.
def predict_flow():
    return {"2 layers": 1 / 3, "12 layers": 0.0, "head shuffled": 1}


# %% wrong: head
# finding: the head matters
# Who thinks that a map from a model that answers nonsense has to be nonsense too.
def predict_flow():
    return {"2 layers": 1 / 3, "12 layers": 1 / 9, "head shuffled": 0.0}
