# finding: join without the transpose
# Who lays the heads side by side with reshape alone.
def without_heads(heads, w_o, b_o, off):
    kept = heads.clone()
    for h in off:
        kept[:, h] = 0
    return kept.reshape(heads.shape[0], heads.shape[2], -1) @ w_o + b_o
