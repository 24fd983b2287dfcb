# finding: not transposed
# Who moves the matrix to the other side as it is.
import math


def absorbed(query, latent, k_up, v_up):
    asked = query @ k_up.mT
    weights = (asked @ latent[:, None].mT / math.sqrt(k_up.shape[1])).softmax(dim=-1)
    mixed = weights @ latent[:, None]
    return asked, mixed, mixed @ v_up.mT
