# The bracket of the derivation: p_j (δ_jm − p_m).
import torch


def jacobian(p):
    delta = torch.eye(p.shape[-1], dtype=p.dtype)
    return p[..., :, None] * (delta - p[..., None, :])
