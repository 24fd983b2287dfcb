# finding: both ways
# Who takes |i − j| < width without asking for the past.
def pairs(lq, lk, width):
    return sum(min(lk, place + width) - max(0, place - width + 1) for place in range(lk - lq, lk))
