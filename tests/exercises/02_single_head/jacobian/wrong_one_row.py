# finding: one row only
# Who copies the chapter's line, written for one row.
import torch


def jacobian(p):
    return torch.diag(p) - torch.outer(p, p)
