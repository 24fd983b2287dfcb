# finding: writes into the patches
# Who copies each image for the list, and not the first one.
import torch


def deletion(patches, scores, baseline):
    image = patches
    images = [image.clone()]
    for index in scores.argsort(descending=True):
        image[index] = baseline
        images.append(image.clone())
    return torch.stack(images)
