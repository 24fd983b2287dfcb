# finding: scaled up
# Who takes the layer for an average of heads, or a pruned head for a dropped one.
def without_heads(heads, w_o, b_o, off):
    count = heads.shape[1]
    w_of = w_o.unflatten(0, (count, -1))
    kept = [heads[:, h] @ w_of[h] * (0.0 if h in off else 1.0) for h in range(count)]
    return sum(kept) * count / max(count - len(off), 1) + b_o
