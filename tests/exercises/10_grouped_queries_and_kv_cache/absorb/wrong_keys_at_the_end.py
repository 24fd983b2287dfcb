# finding: keys unpacked at the end
# Who uses one unpacking matrix for both.
import math


def absorbed(query, latent, k_up, v_up):
    asked = query @ k_up
    weights = (asked @ latent[:, None].mT / math.sqrt(k_up.shape[1])).softmax(dim=-1)
    mixed = weights @ latent[:, None]
    return asked, mixed, mixed @ k_up.mT
