# finding: by size
# Who takes a strong score of either sign for an important patch.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = [image.clone()]
    for index in scores.abs().argsort(descending=True):
        image[index] = baseline
        images.append(image.clone())
    return torch.stack(images)
