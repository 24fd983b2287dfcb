# finding: the whole image is missing
# Who appends after each step only.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = []
    for index in scores.argsort(descending=True):
        image[index] = baseline
        images.append(image.clone())
    return torch.stack(images)
