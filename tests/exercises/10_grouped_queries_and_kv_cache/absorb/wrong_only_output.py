# finding: only the output
# Who stops when the output is right.
import math


def absorbed(query, latent, k_up, v_up):
    weights = (query @ k_up @ latent[:, None].mT / math.sqrt(k_up.shape[1])).softmax(dim=-1)
    return weights @ latent[:, None] @ v_up.mT
