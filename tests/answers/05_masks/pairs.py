# %% right: closed
# All pairs of a causal mask minus those beyond the window, two triangles and what is cut off them.
def pairs(lq, lk, width):
    def corner(side):
        return side * (side + 1) // 2 if side > 0 else 0

    before = lk - lq
    causal = corner(lk) - corner(before)
    too_far = corner(lk - width) - corner(before - width)
    return causal - too_far


# %% right: loop
# Query by query.
def pairs(lq, lk, width):
    return sum(min(place + 1, width) for place in range(lk - lq, lk))


# %% wrong: mask
# finding: the mask was built
# Who counts the entries of the mask, which is right as long as it fits.
from mhalib import masks


def pairs(lq, lk, width):
    return int(masks.window(lq, lk, width).sum())


# %% wrong: mask numpy
# finding: the mask was built
# Who builds it in NumPy.
import numpy as np


def pairs(lq, lk, width):
    ones = np.ones((lq, lk), dtype=bool)
    return int((np.tril(ones, lk - lq) & np.triu(ones, lk - lq - width + 1)).sum())


# %% wrong: rounded
# finding: rounded
# Who divides triangles by 2 in floating point and subtracts them.
def pairs(lq, lk, width):
    def corner(side):
        return side * (side + 1) / 2 if side > 0 else 0.0

    before = lk - lq
    return corner(lk) - corner(before) - corner(lk - width) + corner(before - width)


# %% wrong: top left
# finding: the corner at the top left
# Who counts from the first query, as if it stood at the first key.
def pairs(lq, lk, width):
    return sum(min(i + 1, width) for i in range(lq))


# %% wrong: own key
# finding: one's own key forgotten
# Who counts the keys before a token, and the keys beside it for the window.
def pairs(lq, lk, width):
    return sum(min(place, width - 1) for place in range(lk - lq, lk))


# %% wrong: one more
# finding: the window is one key too wide
# Who adds the own key to a number that includes it.
def pairs(lq, lk, width):
    return sum(min(place + 1, width + 1) for place in range(lk - lq, lk))


# %% wrong: product
# finding: every window is full
# Who multiplies.
def pairs(lq, lk, width):
    return lq * width


# %% wrong: no window
# finding: no window
# Who counts the causal mask and forgets the window.
def pairs(lq, lk, width):
    return lq * (lk - lq) + lq * (lq + 1) // 2


# %% wrong: both ways
# finding: both ways
# Who takes |i − j| < width without asking for the past.
def pairs(lq, lk, width):
    return sum(min(lk, place + width) - max(0, place - width + 1) for place in range(lk - lq, lk))
