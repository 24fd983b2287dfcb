# A patch is gone if its score is among the k highest.
import torch


def deletion(patches, scores, baseline):
    highest = scores.sort(descending=True).values
    images = [patches.masked_fill((scores >= threshold)[:, None], baseline) for threshold in highest]
    return torch.stack([patches, *images])
