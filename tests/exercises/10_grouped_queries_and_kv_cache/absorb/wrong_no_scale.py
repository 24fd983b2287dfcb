# finding: no scale
# Who thinks that the scale went into the matrices with the rest.
def absorbed(query, latent, k_up, v_up):
    asked = query @ k_up
    mixed = (asked @ latent[:, None].mT).softmax(dim=-1) @ latent[:, None]
    return asked, mixed, mixed @ v_up.mT
