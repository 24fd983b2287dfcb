# finding: the corner at the top left
# Who counts from the first query, as if it stood at the first key.
def pairs(lq, lk, width):
    return sum(min(i + 1, width) for i in range(lq))
