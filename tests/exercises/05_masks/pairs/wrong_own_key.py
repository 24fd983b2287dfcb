# finding: one's own key forgotten
# Who counts the keys before a token, and the keys beside it for the window.
def pairs(lq, lk, width):
    return sum(min(place, width - 1) for place in range(lk - lq, lk))
