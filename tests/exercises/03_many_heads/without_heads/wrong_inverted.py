# finding: the others switched off
# Who reads a list of heads as the heads to keep, as a mask would be.
def without_heads(heads, w_o, b_o, off):
    w_of = w_o.unflatten(0, (heads.shape[1], -1))
    return sum((heads[:, h] * (h in off)) @ w_of[h] for h in range(heads.shape[1])) + b_o
