# One part after the other, by the formula for two.
import torch


def merge(outputs, lses):
    output, lse = outputs[0], lses[0]
    for other, other_lse in zip(outputs[1:], lses[1:], strict=True):
        total = torch.logaddexp(lse, other_lse)
        shift = total.nan_to_num(neginf=0.0)
        output = (lse - shift).exp()[:, None] * output + (other_lse - shift).exp()[:, None] * other
        lse = total
    return output, lse
