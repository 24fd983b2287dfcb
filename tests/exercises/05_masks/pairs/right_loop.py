# Query by query.
def pairs(lq, lk, width):
    return sum(min(place + 1, width) for place in range(lk - lq, lk))
