# finding: always black
# Who multiplies with a mask.
import torch


def deletion(patches, scores, baseline):
    image = patches.clone()
    images = [image.clone()]
    for index in scores.argsort(descending=True):
        image[index] = 0
        images.append(image.clone())
    return torch.stack(images)
