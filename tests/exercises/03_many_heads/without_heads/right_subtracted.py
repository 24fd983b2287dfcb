# The whole layer, and the terms of these heads taken away again.
def without_heads(heads, w_o, b_o, off):
    matrices = w_o.chunk(heads.shape[1])
    output = heads.transpose(1, 2).flatten(2) @ w_o + b_o
    for h in set(off):
        output = output - heads[:, h] @ matrices[h]
    return output
