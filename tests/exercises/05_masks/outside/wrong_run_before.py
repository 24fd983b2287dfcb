# finding: compared with the run before
# Who takes differences of neighbours, as one does with a series.
import torch


def seen(outputs):
    return (torch.diff(outputs, dim=0).abs().amax(dim=-1) > 1e-5).T
