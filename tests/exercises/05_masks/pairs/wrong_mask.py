# finding: the mask was built
# Who counts the entries of the mask, which is right as long as it fits.
from mhalib import masks


def pairs(lq, lk, width):
    return int(masks.window(lq, lk, width).sum())
