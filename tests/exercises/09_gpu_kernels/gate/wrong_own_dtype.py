# finding: in the dtype of the result
# Who rounds what is exact so that the dtypes agree.
import torch


def passes(got, exact):
    if got.shape != exact.shape:
        return False
    bound = 8 * torch.finfo(got.dtype).eps * exact.abs().max().item()
    return torch.allclose(got, exact.to(got.dtype), rtol=0.0, atol=bound)
