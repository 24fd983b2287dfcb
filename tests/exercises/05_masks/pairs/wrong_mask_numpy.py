# finding: the mask was built
# Who builds it in NumPy.
import numpy as np


def pairs(lq, lk, width):
    ones = np.ones((lq, lk), dtype=bool)
    return int((np.tril(ones, lk - lq) & np.triu(ones, lk - lq - width + 1)).sum())
