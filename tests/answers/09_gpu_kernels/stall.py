# %% right: eps
# From the distance of 1 to the next number, as torch gives it.
import torch


def predict_stall():
    return {name: 2 / torch.finfo(getattr(torch, name)).eps for name in ("float16", "bfloat16", "float32")}


# %% right: powers
# Two to the number of bits, the hidden one included.
def predict_stall():
    return {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24}


# %% wrong: largest
# finding: the largest number
# Who thinks of overflow.
def predict_stall():
    return {"float16": 65504, "bfloat16": 3.39e38, "float32": 3.4e38}


# %% wrong: same range
# finding: bfloat16 for float32
# Who has read that bfloat16 behaves like float32.
def predict_stall():
    return {"float16": 2048, "bfloat16": 2**24, "float32": 2**24}


# %% wrong: hidden bit
# finding: the hidden bit
# Who counts the bits that are stored.
def predict_stall():
    return {"float16": 2**10, "bfloat16": 2**7, "float32": 2**23}


# %% wrong: one further
# finding: the first that cannot be held
# Who names the number that is missing.
def predict_stall():
    return {"float16": 2049, "bfloat16": 257, "float32": 2**24 + 1}


# %% wrong: twice
# finding: twice as far
# Who waits until a 1 is less than half of the distance.
def predict_stall():
    return {"float16": 4096, "bfloat16": 512, "float32": 2**25}


# %% wrong: exchanged
# finding: the two halves exchanged
# Who gives the newer format the more digits.
def predict_stall():
    return {"float16": 256, "bfloat16": 2048, "float32": 2**24}


# %% wrong: never
# finding: float32 never stops
# Who knows that one accumulates in float32 and takes it for exact.
import math


def predict_stall():
    return {"float16": 2048, "bfloat16": 256, "float32": math.inf}
