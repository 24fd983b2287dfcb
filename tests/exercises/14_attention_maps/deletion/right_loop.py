# One patch after the other, each image copied.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = [image.clone()]
    for index in scores.argsort(descending=True):
        image[index] = baseline
        images.append(image.clone())
    return torch.stack(images)
