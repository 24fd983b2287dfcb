# finding: half to the last pair
# Who reads about half as half.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (2 * num_heads + 2 * num_kv_heads)
    pairs = length**2 // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * num_heads * head_dim
    return 3 * (projections + scores_and_sum)
