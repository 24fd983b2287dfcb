# finding: no bias
# Who writes the sum over heads and forgets what is outside of it.
def without_heads(heads, w_o, b_o, off):
    w_of = w_o.unflatten(0, (heads.shape[1], -1))
    return sum((heads[:, h] * (h not in off)) @ w_of[h] for h in range(heads.shape[1]))
