# finding: sign turned round
# Who lost a sign in the quotient rule.
import torch


def jacobian(p):
    return p[..., :, None] * p[..., None, :] - torch.diag_embed(p)
