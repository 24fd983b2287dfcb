# finding: bias shared out
# Who gives each head its share of the bias, so that the terms sum to the output.
def without_heads(heads, w_o, b_o, off):
    count = heads.shape[1]
    w_of = w_o.unflatten(0, (count, -1))
    output = heads.transpose(1, 2).flatten(2) @ w_o + b_o
    for h in off:
        output = output - (heads[:, h] @ w_of[h] + b_o / count)
    return output
