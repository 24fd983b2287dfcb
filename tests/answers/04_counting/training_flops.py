# %% right: factored
# Everything over one common factor.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    visible = (length + 1) / 2 if skips else length
    return 12 * length * head_dim * (d_model * (num_heads + num_kv_heads) + visible * num_heads)


# %% right: products
# Product by product, and three times each.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    def product(rows, inner, columns):
        return 2 * rows * inner * columns

    forward = 2 * product(length, d_model, num_heads * head_dim)
    forward += 2 * product(length, d_model, num_kv_heads * head_dim)
    keys_seen = range(1, length + 1) if skips else [length] * length
    forward += num_heads * sum(product(1, head_dim, keys) + product(1, keys, head_dim) for keys in keys_seen)
    return 3 * forward


# %% wrong: multiply adds
# finding: multiply-adds
# Who counts multiply-adds, as some papers do.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (2 * num_heads + 2 * num_kv_heads)
    pairs = length * (length + 1) // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * num_heads * head_dim
    return 3 * (projections + scores_and_sum) // 2


# %% wrong: forward
# finding: forward only
# Who forgets that training goes back, too.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (2 * num_heads + 2 * num_kv_heads)
    pairs = length * (length + 1) // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * num_heads * head_dim
    return projections + scores_and_sum


# %% wrong: twice
# finding: backward as dear as forward
# Who thinks that the way back is as long as the way there.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (2 * num_heads + 2 * num_kv_heads)
    pairs = length * (length + 1) // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * num_heads * head_dim
    return 2 * (projections + scores_and_sum)


# %% wrong: always half
# finding: the half that was not earned
# Who takes the half for every causal model, whatever the program does.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (2 * num_heads + 2 * num_kv_heads)
    pairs = length * (length + 1) // 2
    scores_and_sum = 2 * 2 * pairs * num_heads * head_dim
    return 3 * (projections + scores_and_sum)


# %% wrong: never half
# finding: no causal saving
# Who has the plain formula by heart, for every kernel.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (2 * num_heads + 2 * num_kv_heads)
    pairs = length**2
    scores_and_sum = 2 * 2 * pairs * num_heads * head_dim
    return 3 * (projections + scores_and_sum)


# %% wrong: half
# finding: half to the last pair
# Who reads about half as half.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (2 * num_heads + 2 * num_kv_heads)
    pairs = length**2 // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * num_heads * head_dim
    return 3 * (projections + scores_and_sum)


# %% wrong: grouped scores
# finding: groups in the scores
# Who expects grouped queries to make a long prompt cheaper.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (2 * num_heads + 2 * num_kv_heads)
    pairs = length * (length + 1) // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * num_kv_heads * head_dim
    return 3 * (projections + scores_and_sum)


# %% wrong: no groups
# finding: no groups
# Who knows that projections cost 8 · N · d² for d = heads times head_dim.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 8 * length * d_model * num_heads * head_dim
    pairs = length * (length + 1) // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * num_heads * head_dim
    return 3 * (projections + scores_and_sum)


# %% wrong: no output
# finding: no output matrix
# Who stops counting where the heads are joined.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (num_heads + 2 * num_kv_heads)
    pairs = length * (length + 1) // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * num_heads * head_dim
    return 3 * (projections + scores_and_sum)


# %% wrong: d model
# finding: scores by d_model
# Who writes 4 · N² · d with the d of the model.
def training_flops(length, d_model, num_heads, num_kv_heads, head_dim, skips):
    projections = 2 * length * d_model * head_dim * (2 * num_heads + 2 * num_kv_heads)
    pairs = length * (length + 1) // 2 if skips else length**2
    scores_and_sum = 2 * 2 * pairs * d_model
    return 3 * (projections + scores_and_sum)
