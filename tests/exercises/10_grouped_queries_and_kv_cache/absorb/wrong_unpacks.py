# finding: unpacks
# Who computes the plain form and returns its parts.
import math


def absorbed(query, latent, k_up, v_up):
    key, value = latent[:, None] @ k_up.mT, latent[:, None] @ v_up.mT
    weights = (query @ key.mT / math.sqrt(k_up.shape[1])).softmax(dim=-1)
    return query, weights @ latent[:, None], weights @ value
