# finding: written into the input
# Who clears the heads where they are, and forgets that they are the caller's.
def without_heads(heads, w_o, b_o, off):
    heads[:, off] = 0
    return heads.transpose(1, 2).flatten(2) @ w_o + b_o
