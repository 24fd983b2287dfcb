# finding: an order taken for ranks
# Who sorts once where ranks need it twice.
import torch


def deletion(patches, scores, baseline):
    rank = scores.argsort(descending=True)
    gone = rank < torch.arange(len(scores) + 1)[:, None]
    return torch.where(gone[..., None], baseline, patches)
