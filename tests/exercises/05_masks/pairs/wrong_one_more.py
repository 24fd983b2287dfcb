# finding: the window is one key too wide
# Who adds the own key to a number that includes it.
def pairs(lq, lk, width):
    return sum(min(place + 1, width + 1) for place in range(lk - lq, lk))
