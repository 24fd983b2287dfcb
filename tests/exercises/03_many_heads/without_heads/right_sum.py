# The terms of the other heads, added to the bias one after another.
def without_heads(heads, w_o, b_o, off):
    batch, num_heads, length, size = heads.shape
    output = b_o.expand(batch, length, -1)
    for h in range(num_heads):
        if h not in off:
            output = output + heads[:, h] @ w_o[h * size : (h + 1) * size]
    return output
