# A loop over the heads.
import torch


def absorbed(query, latent, k_up, v_up):
    heads = []
    for h in range(query.shape[1]):
        asked = query[:, h] @ k_up[h]
        scores = torch.einsum("bir,bjr->bij", asked, latent) * query.shape[-1] ** -0.5
        mixed = scores.softmax(dim=-1) @ latent
        heads.append((asked, mixed, torch.einsum("bir,dr->bid", mixed, v_up[h])))
    return [torch.stack(part, dim=1) for part in zip(*heads, strict=True)]
