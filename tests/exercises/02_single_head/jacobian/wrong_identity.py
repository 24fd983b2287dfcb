# finding: 1 in the place of p
# Who writes δ − p_j p_m and forgets the factor in front of the bracket.
import torch


def jacobian(p):
    return torch.eye(p.shape[-1], dtype=p.dtype) - p[..., :, None] * p[..., None, :]
