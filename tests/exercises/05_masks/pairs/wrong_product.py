# finding: every window is full
# Who multiplies.
def pairs(lq, lk, width):
    return lq * width
