# finding: rounded
# Who divides triangles by 2 in floating point and subtracts them.
def pairs(lq, lk, width):
    def corner(side):
        return side * (side + 1) / 2 if side > 0 else 0.0

    before = lk - lq
    return corner(lk) - corner(before) - corner(lk - width) + corner(before - width)
