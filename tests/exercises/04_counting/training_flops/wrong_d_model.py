# finding: scores by d_model
# Who writes 4 · N² · d with the d of the model.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (2 * num_heads + 2 * num_kv_heads)
    pairs = length * (length + 1) // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * d_model
    return 3 * (projections + scores_and_sum)
