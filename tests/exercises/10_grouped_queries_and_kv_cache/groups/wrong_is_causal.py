# finding: top left corner
# Who trusts that is_causal means what it means elsewhere.
from torch.nn.functional import scaled_dot_product_attention


def grouped(query, key, value):
    if query.shape[1] % key.shape[1]:
        raise ValueError("the key heads have to divide the query heads")
    return scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
