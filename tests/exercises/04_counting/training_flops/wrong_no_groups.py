# finding: no groups
# Who knows that projections cost 8 · N · d² for d = heads times head_dim.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 8 * length * d_model * num_heads * head_dim
    pairs = length * (length + 1) // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * num_heads * head_dim
    return 3 * (projections + scores_and_sum)
