# finding: no window
# Who counts the causal mask and forgets the window.
def pairs(lq, lk, width):
    return lq * (lk - lq) + lq * (lq + 1) // 2
