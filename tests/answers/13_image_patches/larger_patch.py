# %% right: counted
# Counted, with the parts of the model that do not change known as 86 million.
def predict_larger_patch():
    tokens, pixels = {16: 197, 32: 50}, {16: 768, 32: 3072}
    weights = {patch: 85.8e6 + 768 * (pixels[patch] + 1 + tokens[patch]) for patch in tokens}
    return {
        "patches": 49 / 196,
        "scores": (50 / 197) ** 2,
        "embedding": (3072 + 1) / (768 + 1),
        "parameters": weights[32] / weights[16],
        "flops": 50 / 197,
    }


# %% right: rounded
# Round numbers, from the argument alone.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 4, "parameters": 1.02, "flops": 1 / 4}


# %% wrong: turned
# finding: the other way round
# Who answers for the smaller patch.
def predict_larger_patch():
    return {"patches": 4, "scores": 16, "embedding": 1 / 4, "parameters": 1.02, "flops": 4}


# %% wrong: halved
# finding: halved
# Who thinks of one side of the image.
def predict_larger_patch():
    return {"patches": 1 / 2, "scores": 1 / 4, "embedding": 2, "parameters": 1.02, "flops": 1 / 2}


# %% wrong: linear scores
# finding: scores like patches
# Who counts one score for each token.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 4, "embedding": 4, "parameters": 1.02, "flops": 1 / 4}


# %% wrong: same matrix
# finding: embedding unchanged
# Who remembers that one matrix serves all patches, and not what it multiplies.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 1, "parameters": 1, "flops": 1 / 4}


# %% wrong: shared
# finding: embedding like patches
# Who gives each patch a matrix of its own.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 1 / 4, "parameters": 0.98, "flops": 1 / 4}


# %% wrong: same weights
# finding: parameters unchanged or fewer
# Who knows that a Transformer's weights do not depend on the number of tokens.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 4, "parameters": 1.0, "flops": 1 / 4}


# %% wrong: all embedding
# finding: parameters like the embedding
# Who takes the front for the model.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 4, "parameters": 4, "flops": 1 / 4}


# %% wrong: quadratic
# finding: all work is scores
# Who has read that the cost of a Transformer is quadratic.
def predict_larger_patch():
    return {"patches": 1 / 4, "scores": 1 / 16, "embedding": 4, "parameters": 1.02, "flops": 1 / 16}
