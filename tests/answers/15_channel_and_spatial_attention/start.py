# %% right: computed
# Computed from logits of 0.
import torch


def predict_start():
    logits = torch.zeros(64, dtype=torch.float64)
    gate, weight = logits.sigmoid(), logits.softmax(dim=0)
    return {
        "gate": gate[0].item(),
        "sum": gate.sum().item(),
        "four": gate[0].item() ** 4,
        "softmax": weight[0].item(),
        "softmax, four": weight[0].item() ** 4,
    }


# %% right: fractions
# Fractions.
def predict_start():
    return {"gate": 0.5, "sum": 32, "four": 1 / 16, "softmax": 1 / 64, "softmax, four": 64**-4}


# %% wrong: open
# finding: gates start open
# Who thinks that weights of 0 change nothing.
def predict_start():
    return {"gate": 1, "sum": 64, "four": 1, "softmax": 1 / 64, "softmax, four": 64**-4}


# %% wrong: shut
# finding: gates start shut
# Who thinks that weights of 0 let nothing through.
def predict_start():
    return {"gate": 0, "sum": 0, "four": 0, "softmax": 1 / 64, "softmax, four": 64**-4}


# %% wrong: sum
# finding: gates sum to one
# Who carries the softmax over to the gates.
def predict_start():
    return {"gate": 0.5, "sum": 1, "four": 1 / 16, "softmax": 1 / 64, "softmax, four": 64**-4}


# %% wrong: four same
# finding: one gate is as good as four
# Who thinks that a gate decides once.
def predict_start():
    return {"gate": 0.5, "sum": 32, "four": 0.5, "softmax": 1 / 64, "softmax, four": 64**-4}


# %% wrong: added
# finding: gates are added
# Who divides by four, for four gates.
def predict_start():
    return {"gate": 0.5, "sum": 32, "four": 0.5 / 4, "softmax": 1 / 64, "softmax, four": 64**-4}


# %% wrong: softmax half
# finding: softmax of a half
# Who takes softmax and sigmoid for one thing where the logits are 0.
def predict_start():
    return {"gate": 0.5, "sum": 32, "four": 1 / 16, "softmax": 0.5, "softmax, four": 1 / 16}


# %% wrong: softmax same
# finding: softmax, four times the same
# Who has multiplied the gates and not the weights.
def predict_start():
    return {"gate": 0.5, "sum": 32, "four": 1 / 16, "softmax": 1 / 64, "softmax, four": 1 / 64}
