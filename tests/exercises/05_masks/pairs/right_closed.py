# All pairs of a causal mask minus those beyond the window, two triangles and what is cut off them.
def pairs(lq, lk, width):
    def corner(side):
        return side * (side + 1) // 2 if side > 0 else 0

    before = lk - lq
    causal = corner(lk) - corner(before)
    too_far = corner(lk - width) - corner(before - width)
    return causal - too_far
