# finding: every H-th row
# Who remembers that heads are strided in memory, and strides the wrong axis.
def without_heads(heads, w_o, b_o, off):
    w_o = w_o.clone()
    for h in off:
        w_o[h :: heads.shape[1]] = 0
    return heads.transpose(1, 2).flatten(2) @ w_o + b_o
