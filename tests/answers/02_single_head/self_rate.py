# %% right: fraction
# Rounded, in another order.
def predict_self_rate():
    return {"two matrices": 0.06, "tied": 1}


# %% right: measured
# By trying it, with other random numbers.
import torch


def predict_self_rate():
    x = torch.randn(2000, 16, 64)
    w_q, w_k = torch.randn(2, 2000, 64, 64) / 8
    pairs = {"tied": (x, x), "two matrices": (x @ w_q, x @ w_k)}
    own = torch.arange(16)
    return {name: ((q @ k.mT).argmax(dim=-1) == own).double().mean().item() for name, (q, k) in pairs.items()}


# %% wrong: in percent
# finding: in percent
# Who writes 100 and means 100 %.
def predict_self_rate():
    return {"tied": 100, "two matrices": 6.25}


# %% wrong: always itself
# finding: a head always looks at itself
# Who has seen the diagonal of a tied map and takes it for what heads do.
def predict_self_rate():
    return {"tied": 1.0, "two matrices": 0.9}


# %% wrong: chance in both
# finding: chance in both
# Who thinks of random vectors as unrelated to themselves too.
def predict_self_rate():
    return {"tied": 1 / 16, "two matrices": 1 / 16}


# %% wrong: other way round
# finding: the other way round
# Who expects the matrices to make the match.
def predict_self_rate():
    return {"tied": 0.06, "two matrices": 1.0}


# %% wrong: never
# finding: never by chance
# Who concludes from unrelated vectors that a token never finds itself.
def predict_self_rate():
    return {"tied": 1.0, "two matrices": 0.0}
