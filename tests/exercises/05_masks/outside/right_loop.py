# One token after the other, a column each.
import torch


def seen(outputs):
    columns = [~torch.isclose(run, outputs[0], rtol=0, atol=1e-5).all(dim=-1) for run in outputs[1:]]
    return torch.stack(columns, dim=1)
